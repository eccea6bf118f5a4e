//! A row of the atlas: an entry on a task at a group size.

use super::expectation::Expectation;
use crate::atlas::entries::Entry;
use crate::training::Task;
use serde::{Deserialize, Serialize};

/// The group size of everything but the error of an update.
pub(super) const GROUP: usize = 8;

macro_rules! columns {
    ($($column:ident = $name:literal,)*) => {
        /// The number in a column of a row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Column { $($column),* }

        impl Column {
            /// All columns, in the order of the table.
            pub(super) const ALL: [Column; COLUMNS.len()] = [$(Column::$column),*];

            pub(super) fn name(self) -> &'static str {
                COLUMNS[self as usize]
            }
        }

        const COLUMNS: &[&str] = &[$($name),*];
    };
}

columns! {
    J = "j",
    Cosine = "cosine",
    CosineSe = "cosine_se",
    Bias = "bias",
    BiasDirection = "bias_direction",
    BiasRescaling = "bias_rescaling",
    Scale = "scale",
    SignAgreement = "sign_agreement",
    KappaMin = "kappa_min",
    KappaMax = "kappa_max",
    KappaCv = "kappa_cv",
    ReversedVisits = "reversed_visits",
    TraceCovariance = "trace_covariance",
    TraceCovarianceSe = "trace_covariance_se",
    SignalToNoise = "signal_to_noise",
    Mse = "mse",
    MseBias = "mse_bias",
    MseVariance = "mse_variance",
    MseSe = "mse_se",
    CreditRankCorrelation = "credit_rank_correlation",
    CreditR2 = "credit_r2",
    Passes = "passes",
    FitKl = "fit_kl",
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) task: String,
    pub(super) method: String,
    pub(super) group: usize,
    /// `exact: ..`, `sampled: ..`, `impossible`.
    pub(super) how: String,
    /// Why there is no number; empty where there is.
    pub(super) reason: String,
    numbers: [Option<f64>; COLUMNS.len()],
}

impl Row {
    pub(super) fn new(task: &Task, entry: &Entry, group: usize) -> Row {
        Row {
            task: task.name.clone(),
            method: entry.name.into(),
            group,
            how: String::new(),
            reason: String::new(),
            numbers: [None; COLUMNS.len()],
        }
    }

    /// The number in a column; `None` if it is not defined.
    pub(super) fn get(&self, column: Column) -> Option<f64> {
        self.numbers[column as usize]
    }

    /// Sets the number in a column; NaN clears it.
    pub(super) fn set(&mut self, column: Column, value: f64) {
        self.numbers[column as usize] = (!value.is_nan()).then_some(value);
    }

    /// True if nothing in it was simulated.
    pub(super) fn exact(&self) -> bool {
        self.how.starts_with("exact")
    }

    pub(super) fn impossible(&mut self, reason: &str) {
        (self.how, self.reason) = ("impossible".into(), reason.into());
    }

    /// Sets what is known of an expectation, and its numbers; there are none where the expected update is 0.
    pub(super) fn fill(&mut self, found: &Expectation, numbers: Option<Vec<(Column, f64)>>) {
        self.how = found.how.clone();
        self.set(Column::TraceCovariance, found.variance);
        self.set(Column::TraceCovarianceSe, found.variance_se);
        if numbers.is_none() {
            self.reason = "the expected update is 0".into();
        }
        for (column, value) in numbers.unwrap_or_else(|| vec![(Column::Mse, 1.0)]) {
            self.set(column, value);
        }
    }
}
