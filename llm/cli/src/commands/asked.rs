//! The template of a model's prompts: the chosen one, or else that of the run it is from.

use std::path::Path;

use super::options::PromptArgs;
use super::{Failure, Result};
use grpo_lambda_grade::Extraction;
use grpo_lambda_trainer::eval::origin::Origin;
use grpo_lambda_trainer::input::prompt::{PromptForm, Template};
use grpo_lambda_trainer::run::progress::say;

/// The template of prompts.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) template: Template,
    /// The system prompt, where it is not the template's own.
    pub(super) system: Option<String>,
    /// The arguments of a chat template, where they are not its defaults.
    pub(super) args: Option<String>,
    /// The template's origin.
    pub(super) from: String,
    /// The place of the answer in a response: the run's under its template, else that of the template.
    pub(super) extraction: Extraction,
}

impl Asked {
    /// The template given, else the `default` with what chose it, or that of `origin`, or none at all. Where the choice is not what the run was
    /// trained with, a line says both.
    pub(super) fn new(
        given: &PromptArgs,
        default: Option<(&str, &str)>,
        origin: Option<&Origin>,
        checkpoint: &Path,
    ) -> Result<Asked> {
        let trained = origin.map(|origin| (origin, origin.form()));
        let choice = given.template.as_deref().map(|name| (name, "--template")).or(default);
        let (given_system, given_args) = (given.system.as_deref(), given.template_args.as_deref());
        let chosen = choice.map(|(name, _)| name);
        let as_trained = trained.filter(|(_, form)| chosen.is_none_or(|chosen| chosen == form.template));
        let mut template = match as_trained {
            Some((origin, _)) => origin.load_template(checkpoint, given_args).map_err(|e| {
                let file = origin.config_file();
                Failure::refused(format!(
                    "{}: task.template: {e}; another one is given with --template",
                    file.display()
                ))
            }),
            None => {
                let form = PromptForm { template: chosen.unwrap_or("no"), system: None, args: given_args };
                Template::of_form(form, Some(checkpoint))
                    .map_err(|e| Failure::refused(format!("--template: {e}")))
            }
        }?;
        if let Some(system) = given_system {
            template = template
                .with_system(system)
                .map_err(|e| Failure::refused(format!("--system {system:?}: {e}")))?;
        }
        let inherited = as_trained.map(|(_, form)| form);
        let system = given_system.or(inherited.and_then(|form| form.system)).map(str::to_owned);
        let args = given_args.or(inherited.and_then(|form| form.args)).map(str::to_owned);
        let from = match (choice, trained) {
            (Some((_, option)), _) => option.to_owned(),
            (None, Some((origin, _))) => format!("training: {}", origin.config_file().display()),
            (None, None) => "the default for a model that is from no run".to_owned(),
        };
        let of_run = origin.filter(|_| choice.is_none());
        let extraction = of_run.map_or(template.extraction(), |run| run.extraction(&template));
        let asked = Asked { template, system, args, from, extraction };
        if let Some((origin, trained)) = trained {
            asked.tell(origin, trained);
        }
        Ok(asked)
    }

    /// The form of prompts.
    pub(super) fn form(&self) -> PromptForm<'_> {
        let (system, args) = (self.system.as_deref(), self.args.as_deref());
        PromptForm { template: self.template.name(), system, args }
    }

    /// Says what training did and what is done now, where that is not the same.
    fn tell(&self, origin: &Origin, trained: PromptForm<'_>) {
        let now = self.form();
        if now != trained {
            let (from, file) = (&self.from, origin.config_file());
            say(&format!(
                "asked with {now} ({from}), where training asked with {trained} ({})",
                file.display()
            ));
        }
    }
}
