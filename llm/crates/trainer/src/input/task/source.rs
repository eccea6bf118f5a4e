//! Where a run's problems come from, as its configuration says.

use grpo_lambda_grade::{Extraction, Grader, Rules};

use super::Task;
use crate::input::data::{Columns, OnBadRow};

/// Where a run's problems come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskSource {
    /// The program makes them.
    Embedded(Task),
    /// They are the rows of a data set.
    Dataset(DatasetTask),
}

/// A data set as a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetTask {
    /// Where it is: see [`crate::input::data::locate`].
    pub data: String,
    /// Where the held-out problems are; none: a tenth of `data`, chosen by a hash of each problem, and another tenth for validation.
    pub test: Option<String>,
    /// Which columns hold what.
    pub columns: Columns,
    /// The template's name: see [`crate::input::prompt::Template::load`].
    pub template: String,
    /// The system prompt; none: the template's own.
    pub system: Option<String>,
    /// How answers are read and compared.
    pub reading: AnswerReading,
    /// What happens to rows that cannot be used.
    pub on_bad_row: OnBadRow,
    /// Which rows are left out for their length.
    pub lengths: LengthFilter,
}

/// How answers to the rows of a data set are read and compared with their references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerReading {
    /// Where the answer stands in a response; `None`: where the template asks for it.
    pub extraction: Option<Extraction>,
    /// Which spellings count as the same.
    pub rules: Rules,
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
