//! Where a run's problems come from, as its configuration says.

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
    /// What happens to rows that cannot be used.
    pub on_bad_row: OnBadRow,
    /// Which rows are left out for their length.
    pub lengths: LengthFilter,
}

/// The longest rows that are taken, in tokens; `None` for any that fit into the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LengthFilter {
    /// Tokens of the prompt.
    pub prompt: Option<usize>,
    /// Tokens of the worked solution, as it is imitated.
    pub solution: Option<usize>,
}
