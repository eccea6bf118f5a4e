//! The source of a run's problems in its configuration.

use grpo_lambda_grade::{Extraction, Grader, Rules};

use super::Task;
use crate::input::data::{Columns, OnBadRow};
use crate::input::prompt::PromptForm;

/// The source of a run's problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskSource {
    /// Problems that the program makes.
    Embedded(Task),
    /// The rows of a data set.
    Dataset(Box<DatasetTask>),
}

/// A data set as a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetTask {
    /// Its path or name: see [`crate::input::data::locate`].
    pub data: String,
    /// The held-out problems; `None`: a tenth of `data`, chosen by a hash of each problem, and another tenth for validation.
    pub test: Option<String>,
    pub columns: Columns,
    /// The template's name: see [`crate::input::prompt::Template::load`].
    pub template: String,
    /// The system prompt; `None` for the template's own.
    pub system: Option<String>,
    /// Arguments of the chat template as a JSON object; `None` for its defaults.
    pub template_args: Option<String>,
    pub reading: AnswerReading,
    pub on_bad_row: OnBadRow,
    pub lengths: LengthFilter,
}

/// The reading of answers and their comparison with a data set's references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerReading {
    /// The place of the answer in a response; `None` for the template's.
    pub extraction: Option<Extraction>,
    /// The spellings that count as equal.
    pub rules: Rules,
}

impl DatasetTask {
    /// The form of its prompts.
    pub fn form(&self) -> PromptForm<'_> {
        let (system, args) = (self.system.as_deref(), self.template_args.as_deref());
        PromptForm { template: &self.template, system, args }
    }
}

impl AnswerReading {
    /// The grader, for responses to a template that asks for answers there.
    pub fn grader(self, asked: Extraction) -> Grader {
        Grader { extraction: self.extraction.unwrap_or(asked), rules: self.rules }
    }
}

/// The longest rows that are taken, in tokens; `None` for any that fit into the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LengthFilter {
    /// Tokens of the prompt.
    pub prompt: Option<usize>,
    /// Tokens of the worked solution, as it is imitated.
    pub solution: Option<usize>,
}
