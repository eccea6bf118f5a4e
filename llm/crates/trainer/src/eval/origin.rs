//! The run that trained a model, and its prompts: a model is evaluated with the prompts of its training.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use grpo_lambda_grade::Extraction;

use crate::config::{Config, ConfigError, ModelSource};
use crate::input::data::{Row, words};
use crate::input::prompt::{PromptError, PromptForm, Template};
use crate::input::task::{Split, TaskSource};
use crate::input::tokens::{ModelTokenizer, TokenError};
use crate::problems::{Problems, TaskError};
use crate::run::model_directory::run_of_best;

/// The template of the embedded tasks, whose problems end with a line break.
const EMBEDDED: &str = "line";

pub const CONFIG: &str = "config.toml";
const STATE: &str = "state.json";

/// The reason why a run's held-out problems are not available.
#[derive(Debug, thiserror::Error)]
pub enum HeldOutError {
    #[error(
        "{run} learned on an embedded task, which has no rows; its held-out problems are tiny:stories or tiny:addition"
    )]
    Embedded { run: PathBuf },
    /// The model cannot be asked the embedded task.
    #[error(transparent)]
    Model(Box<TaskError>),
    /// They cannot be opened as training opened them.
    #[error(
        "the held-out problems of {run} (task.data = {data}) cannot be read as in training: {source}; a relative path starts from the \
         directory that training was started in; other problems are named with --benchmarks"
    )]
    Task { run: PathBuf, data: String, source: Box<TaskError> },
    #[error(
        "the rows of task.data = {data} are not those that {run} was trained on (checksum {now}, not {then}), so problems of training \
         might be among its held-out ones; put the rows back, or name problems with --benchmarks"
    )]
    OtherRows { run: PathBuf, data: String, then: String, now: String },
}

/// The run that trained a model.
#[derive(Clone, Debug)]
pub struct Origin {
    pub run: PathBuf,
    /// Its resolved configuration.
    pub config: Config,
}

impl Origin {
    /// The run directory of `model`: itself, the one whose best checkpoint it names, or the one in whose `checkpoints` it lies. A directory with a `config.json` of its own is a
    /// checkpoint, whatever stands next to it.
    pub fn directory(model: &Path) -> Option<PathBuf> {
        let holds_config = |run: &Path| run.join(CONFIG).is_file();
        if holds_config(model) && !model.join("config.json").exists() {
            return Some(model.to_owned());
        }
        if let Some(run) = run_of_best(model) {
            return Some(run.to_owned());
        }
        let above = |path: PathBuf| {
            let checkpoints =
                path.ancestors().find(|path| path.file_name() == Some(OsStr::new("checkpoints")));
            checkpoints.and_then(Path::parent).filter(|run| holds_config(run)).map(Path::to_owned)
        };
        // First the path as written, so that a linked checkpoint still finds its run; then the real path.
        let found = above(model.to_owned()).or_else(|| above(std::path::absolute(model).ok()?));
        found.or_else(|| above(model.canonicalize().ok()?))
    }

    /// The run that trained `model`, if any.
    pub fn find(model: &Path) -> Result<Option<Origin>, ConfigError> {
        let Some(run) = Origin::directory(model) else { return Ok(None) };
        let config = Config::read(&run.join(CONFIG))?;
        Ok(Some(Origin { run, config }))
    }

    pub fn config_file(&self) -> PathBuf {
        self.run.join(CONFIG)
    }

    /// The form of the run's prompts.
    pub fn form(&self) -> PromptForm<'_> {
        match &self.config.task {
            TaskSource::Embedded(_) => PromptForm { template: EMBEDDED, system: None, args: None },
            TaskSource::Dataset(task) => task.form(),
        }
    }

    /// The place where the run looks for the answer in a response, under its template.
    pub fn extraction(&self, template: &Template) -> Extraction {
        match &self.config.task {
            TaskSource::Embedded(_) => template.extraction(),
            TaskSource::Dataset(task) => task.reading.grader(template.extraction()).extraction,
        }
    }

    /// The template of [`Origin::form`] as the run loaded it, with other arguments where `args` are given; the tokenizer's files in `checkpoint`, one of the run's, hold the chat template.
    pub fn load_template(&self, checkpoint: &Path, args: Option<&str>) -> Result<Template, PromptError> {
        let form = self.form();
        // A run that began with random weights had no checkpoint whose special tokens a template could write.
        let began_with_one = matches!(self.config.model, ModelSource::Checkpoint(_));
        Template::of_form(
            PromptForm { args: args.or(form.args), ..form },
            began_with_one.then_some(checkpoint),
        )
    }

    /// Up to `limit` rows of the run's held-out split, in the order in which training measures them, for a model with `positions` positions.
    pub fn held_out(
        &self,
        checkpoint: &Path,
        (tokens, positions): (&ModelTokenizer, usize),
        limit: usize,
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<Row>, HeldOutError> {
        let TaskSource::Dataset(task) = &self.config.task else {
            return Err(HeldOutError::Embedded { run: self.run.clone() });
        };
        let problems = self.problems((checkpoint, checkpoint), (tokens, positions), say)?;
        problems.rows(Split::Test, limit).map_err(|source| self.unreadable(&task.data, source))
    }

    /// The run's problems as it opened them, for a model with `positions` positions. The rows of a data set are those that `state`, a checkpoint of
    /// the run, was trained on.
    ///
    /// # Errors
    /// If the problems cannot be opened, or the rows are others.
    pub fn problems(
        &self,
        (checkpoint, state): (&Path, &Path),
        (tokens, positions): (&ModelTokenizer, usize),
        say: &mut dyn FnMut(&str),
    ) -> Result<Problems, HeldOutError> {
        let mut config = self.config.clone();
        // The initial model may be gone; the run's checkpoints hold the same tokenizer.
        if let ModelSource::Checkpoint(began_with) = &mut config.model {
            *began_with = checkpoint.to_owned();
        }
        let problems = Problems::open(&config, tokens, positions, say);
        let TaskSource::Dataset(task) = &self.config.task else {
            return problems.map_err(|source| HeldOutError::Model(Box::new(source)));
        };
        let problems = problems.map_err(|source| self.unreadable(&task.data, source))?;
        if let (Some(then), Some(now)) = (rows_of_training(state), problems.fingerprint())
            && then != now
        {
            let (run, data) = (self.run.clone(), task.data.clone());
            return Err(HeldOutError::OtherRows { run, data, then, now });
        }
        Ok(problems)
    }

    fn unreadable(&self, data: &str, source: TaskError) -> HeldOutError {
        HeldOutError::Task { run: self.run.clone(), data: data.to_owned(), source: Box::new(source) }
    }
}

/// The problems that a model was trained on, with the run and the data set of each.
#[derive(Clone, Debug, Default)]
pub struct TrainedOn {
    problems: HashSet<String>,
    /// The runs with their data sets, the last first.
    pub runs: Vec<(PathBuf, String)>,
}

/// The reason why it cannot be determined what a model was trained on.
#[derive(Debug, thiserror::Error)]
pub enum TrainedOnError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Tokens(#[from] TokenError),
    #[error(transparent)]
    Rows(#[from] HeldOutError),
}

/// Most runs that are followed back, each the start of the next.
const CHAIN: usize = 16;

impl TrainedOn {
    /// Finds the problems of the run that `model` is from, and of the runs whose checkpoints it started from; `checkpoint` is that of the model.
    ///
    /// # Errors
    /// The reason why the problems of one of them cannot be determined.
    pub fn find(model: &Path, checkpoint: &Path, positions: usize) -> Result<TrainedOn, TrainedOnError> {
        let mut trained = TrainedOn::default();
        let mut start = model.to_owned();
        for _ in 0..CHAIN {
            let Some(origin) = Origin::find(&start)? else { break };
            if let TaskSource::Dataset(task) = &origin.config.task {
                let tokens = ModelTokenizer::load(checkpoint)?;
                let state = if start == model { checkpoint } else { start.as_path() };
                let problems = origin.problems((checkpoint, state), (&tokens, positions), &mut |_| ())?;
                let learned = problems.training().map_err(|source| origin.unreadable(&task.data, source))?;
                trained.problems.extend(learned.iter().map(|problem| words(problem)));
                trained.runs.push((origin.run.clone(), task.data.clone()));
            }
            let ModelSource::Checkpoint(before) = origin.config.model else { break };
            start = before;
        }
        Ok(trained)
    }

    /// True if the problem is among them, blanks apart.
    pub fn contains(&self, problem: &str) -> bool {
        self.problems.contains(&words(problem))
    }
}

/// The checksum of a checkpoint's training rows, if stored.
fn rows_of_training(checkpoint: &Path) -> Option<String> {
    let bytes = std::fs::read(checkpoint.join(STATE)).ok()?;
    let state: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let rows = state.get("data")?.as_str()?.to_owned();
    // Without the grader's revision the run was begun by an earlier version, which divided some rows otherwise.
    Some(if state.get("grader").is_some() { rows } else { format!("{rows} of an earlier version") })
}
