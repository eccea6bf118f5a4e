//! A row of the atlas: an entrant on a task at a group size.

use super::anatomy::Anatomy;
use super::expectation::Expectation;
use crate::atlas::entrants::Entrant;
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
    pub(super) fn new(task: &Task, entrant: &Entrant, group: usize) -> Row {
        Row {
            task: task.name.clone(),
            method: entrant.name.into(),
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

    pub(super) fn fill(&mut self, a: &Anatomy, found: &Expectation) {
        self.how = found.how.clone();
        self.set(Column::TraceCovariance, a.variance);
        self.set(Column::TraceCovarianceSe, a.variance_se);
        if a.zero {
            self.reason = "the expected update is 0".into();
            self.set(Column::Mse, 1.0);
            return;
        }
        for (column, value) in [
            (Column::Cosine, a.cosine),
            (Column::CosineSe, a.cosine_se),
            (Column::Bias, a.bias),
            (Column::BiasDirection, a.direction),
            (Column::BiasRescaling, a.rescaling),
            (Column::Scale, a.scale),
            (Column::SignAgreement, a.sign_agreement),
            (Column::KappaMin, a.kappa_min),
            (Column::KappaMax, a.kappa_max),
            (Column::KappaCv, a.kappa_cv),
            (Column::ReversedVisits, a.reversed),
            (Column::SignalToNoise, a.signal_to_noise),
            (Column::Mse, a.mse),
            (Column::MseBias, a.mse_bias),
            (Column::MseVariance, a.mse_variance),
            (Column::MseSe, a.mse_se),
            (Column::CreditRankCorrelation, a.rank_correlation),
            (Column::CreditR2, a.r_squared),
        ] {
            self.set(column, value);
        }
    }
}
