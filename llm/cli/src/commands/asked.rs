//! The template of a model's prompts: the chosen one, or else that of the run it is from.

use std::path::Path;

use super::Failure;
use grpo_lambda_grade::Extraction;
use grpo_lambda_trainer::eval::origin::Origin;
use grpo_lambda_trainer::eval::settings::in_words;
use grpo_lambda_trainer::input::prompt::Template;
use grpo_lambda_trainer::run::progress::say;

/// The command line's choice of a template.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    /// The template, with the option that chose it.
    pub(super) template: Option<(&'a str, &'a str)>,
    /// The system prompt.
    pub(super) system: Option<&'a str>,
}

/// The template of prompts.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) template: Template,
    /// The system prompt, where it is not the template's own.
    pub(super) system: Option<String>,
    /// The template's origin.
    pub(super) from: String,
    /// The place of the answer in a response: the run's under its template, else that of the template.
    pub(super) extraction: Extraction,
}

impl Asked {
    /// The template chosen, or that of `origin`, or none at all. Where the choice is not what the run was trained with, a line says both.
    pub(super) fn new(
        choice: Choice<'_>,
        origin: Option<&Origin>,
        checkpoint: &Path,
    ) -> Result<Asked, Failure> {
        let trained = origin.map(|origin| (origin, origin.template()));
        let chosen = choice.template.map(|(name, _)| name);
        let as_trained = trained.filter(|(_, (name, _))| chosen.is_none_or(|chosen| chosen == *name));
        let mut template = match as_trained {
            Some((origin, _)) => origin.load_template(checkpoint).map_err(|e| {
                let file = origin.config_file();
                Failure::refused(format!(
                    "{}: task.template: {e}; another one is given with --template",
                    file.display()
                ))
            }),
            None => Template::load(chosen.unwrap_or("no"), Some(checkpoint))
                .map_err(|e| Failure::refused(format!("--template: {e}"))),
        }?;
        if let Some(system) = choice.system {
            template = template
                .with_system(system)
                .map_err(|e| Failure::refused(format!("--system {system:?}: {e}")))?;
        }
        let inherited = as_trained.and_then(|(_, (_, system))| system);
        let system = choice.system.or(inherited).map(str::to_owned);
        let from = match (choice.template, trained) {
            (Some((_, option)), _) => option.to_owned(),
            (None, Some((origin, _))) => format!("training: {}", origin.config_file().display()),
            (None, None) => "the default for a model that is from no run".to_owned(),
        };
        let of_run = origin.filter(|_| choice.template.is_none());
        let extraction = of_run.map_or(template.extraction(), |run| run.extraction(&template));
        let asked = Asked { template, system, from, extraction };
        if let Some((origin, trained)) = trained {
            asked.tell(origin, trained);
        }
        Ok(asked)
    }

    /// Says what training did and what is done now, where that is not the same.
    fn tell(&self, origin: &Origin, trained: (&str, Option<&str>)) {
        let now = (self.template.name(), self.system.as_deref());
        if now != trained {
            let (now, trained) = (in_words(now.0, now.1), in_words(trained.0, trained.1));
            let (from, file) = (&self.from, origin.config_file());
            say(&format!(
                "asked with {now} ({from}), where training asked with {trained} ({})",
                file.display()
            ));
        }
    }
}
