//! A row of the atlas: an entrant on a task at a group size, as cells and back.

use grpo_lambda_stats::table::Cell;

use super::anatomy::Anatomy;
use super::expectation::Expectation;
use crate::atlas::entrants::Entrant;
use crate::atlas::tasks::Task;

/// The group size of everything but the error of an update.
pub(super) const GROUP: usize = 8;

/// The numbers of a row, in the order of the table.
pub(super) const NUMBERS: [&str; 23] = [
    "j",
    "cosine",
    "cosine_se",
    "bias",
    "bias_direction",
    "bias_rescaling",
    "scale",
    "sign_agreement",
    "kappa_min",
    "kappa_max",
    "kappa_cv",
    "reversed_visits",
    "trace_covariance",
    "trace_covariance_se",
    "signal_to_noise",
    "mse",
    "mse_bias",
    "mse_variance",
    "mse_se",
    "credit_rank_correlation",
    "credit_r2",
    "passes",
    "fit_kl",
];

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) task: String,
    pub(super) method: String,
    pub(super) group: usize,
    /// `exact: ..`, `sampled: ..`, `impossible`.
    pub(super) how: String,
    /// Why there is no number; empty where there is.
    pub(super) reason: String,
    numbers: [Option<f64>; NUMBERS.len()],
}

impl Row {
    pub(super) fn new(task: &Task, entrant: &Entrant, group: usize) -> Row {
        Row {
            task: task.name.into(),
            method: entrant.name.into(),
            group,
            how: String::new(),
            reason: String::new(),
            numbers: [None; NUMBERS.len()],
        }
    }

    /// The number of a column; `None` where it is not defined.
    pub(super) fn get(&self, column: &str) -> Option<f64> {
        self.numbers[place(column)]
    }

    /// Sets the number of a column; what is not a number is none.
    pub(super) fn set(&mut self, column: &str, value: f64) {
        self.numbers[place(column)] = (!value.is_nan()).then_some(value);
    }

    /// Whether nothing in it was simulated.
    pub(super) fn exact(&self) -> bool {
        self.how.starts_with("exact")
    }

    pub(super) fn impossible(&mut self, reason: &str) {
        (self.how, self.reason) = ("impossible".into(), reason.into());
    }

    pub(super) fn fill(&mut self, a: &Anatomy, found: &Expectation) {
        self.how = found.how.clone();
        self.set("trace_covariance", a.variance);
        self.set("trace_covariance_se", a.variance_se);
        if a.zero {
            self.reason = "the expected update is 0".into();
            self.set("mse", 1.0);
            return;
        }
        for (column, value) in [
            ("cosine", a.cosine),
            ("cosine_se", a.cosine_se),
            ("bias", a.bias),
            ("bias_direction", a.direction),
            ("bias_rescaling", a.rescaling),
            ("scale", a.scale),
            ("sign_agreement", a.sign_agreement),
            ("kappa_min", a.kappa_min),
            ("kappa_max", a.kappa_max),
            ("kappa_cv", a.kappa_cv),
            ("reversed_visits", a.reversed),
            ("signal_to_noise", a.signal_to_noise),
            ("mse", a.mse),
            ("mse_bias", a.mse_bias),
            ("mse_variance", a.mse_variance),
            ("mse_se", a.mse_se),
            ("credit_rank_correlation", a.rank_correlation),
            ("credit_r2", a.r_squared),
        ] {
            self.set(column, value);
        }
    }

    pub(super) fn cells(&self) -> Vec<Cell> {
        let texts = [&self.task, &self.method, &self.how, &self.reason].map(|t| Cell::from(t.as_str()));
        texts.into_iter().chain([self.group.into()]).chain(self.numbers.map(Cell::from)).collect()
    }

    /// The row that [`Row::cells`] wrote.
    ///
    /// # Errors
    /// If the cells are not such a row.
    pub(super) fn read(cells: &[Cell]) -> anyhow::Result<Row> {
        let text = |i: usize| match cells.get(i) {
            Some(Cell::Text(text)) => Ok(text.clone()),
            other => Err(anyhow::anyhow!("partial results: cell {i} is {other:?}, not a text")),
        };
        anyhow::ensure!(cells.len() == 5 + NUMBERS.len(), "partial results: a row of {} cells", cells.len());
        let mut numbers = [None; NUMBERS.len()];
        for (number, cell) in numbers.iter_mut().zip(&cells[5..]) {
            *number = cell.number();
        }
        let group = cells[4].number().unwrap_or(0.0) as usize;
        Ok(Row { task: text(0)?, method: text(1)?, how: text(2)?, reason: text(3)?, group, numbers })
    }
}

fn place(column: &str) -> usize {
    NUMBERS.iter().position(|c| *c == column).unwrap_or_else(|| panic!("no column {column}"))
}
