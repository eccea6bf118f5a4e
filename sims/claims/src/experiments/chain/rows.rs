//! The rows of the data files that a report quotes.

use super::LEVEL;
use crate::experiments::common::record::Yes;
use grpo_lambda_stats::Interval;
use serde::{Deserialize, Serialize};

/// A row of `chain.csv`: a method of version 6.
#[derive(Serialize)]
pub(super) struct MethodRow {
    pub(super) method: String,
    pub(super) label: String,
    pub(super) rate: f64,
    /// True if the rate that selection chose is the least or the greatest of those tried.
    pub(super) at_an_end: Yes,
    pub(super) seeds: usize,
    /// Mean held-out accuracy over the budget of tokens.
    pub(super) accuracy: f64,
    pub(super) accuracy_low: f64,
    pub(super) accuracy_high: f64,
    /// The accuracy minus that of RLOO, paired by seed; none of RLOO itself.
    pub(super) minus_rloo: Option<f64>,
    pub(super) minus_rloo_low: Option<f64>,
    pub(super) minus_rloo_high: Option<f64>,
    /// Mean accuracy at the last exam.
    pub(super) last: f64,
}

/// A row of `chain_seeds.csv`: an evaluation run of version 6.
#[derive(Serialize)]
pub(super) struct SeedRow {
    pub(super) method: String,
    pub(super) seed: u64,
    /// Mean held-out accuracy over the budget of tokens, then the same minus that of RLOO on the seed.
    pub(super) accuracy: f64,
    pub(super) minus_rloo: f64,
    pub(super) last: f64,
}

/// A row of `chain_compared.csv`: the mean accuracy of a method over the budget minus that of another, paired by seed.
#[derive(Serialize, Deserialize)]
pub(crate) struct ComparedRow {
    /// `gate`, `family` (which Holm corrects) or `reported`.
    pub(crate) role: String,
    pub(crate) method: String,
    pub(crate) with: String,
    pub(crate) difference: f64,
    pub(crate) difference_low: f64,
    pub(crate) difference_high: f64,
    /// The ends of the 90 % interval, which decides equivalence.
    pub(crate) narrow_low: f64,
    pub(crate) narrow_high: f64,
    /// Seeds on which the method has the higher accuracy.
    pub(crate) higher_on: usize,
    pub(crate) p: f64,
    pub(crate) corrected: Option<f64>,
    /// `higher`, `lower`, `equivalent` or `inconclusive`; outside the family nothing.
    pub(crate) verdict: String,
}

/// A row of `chain_updates.csv`: the update of a method at a place of a run, over the seeds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct UpdateRow {
    pub(super) place: String,
    pub(super) arm: String,
    pub(super) seeds: usize,
    /// The noise over RLOO's of the same seed, then the cosine with the gradient over RLOO's.
    pub(super) noise: f64,
    pub(super) noise_low: f64,
    pub(super) noise_high: f64,
    pub(super) cosine: f64,
    pub(super) cosine_low: f64,
    pub(super) cosine_high: f64,
    /// The size of a wrong response's credit after the first error over that before it.
    pub(super) credit_after_over_before: f64,
    /// Rank correlation of a value's credit with the exact one.
    pub(super) rank_correlation: Option<f64>,
}

impl UpdateRow {
    pub(super) fn noise(&self) -> Interval {
        Interval { low: self.noise_low, mid: self.noise, high: self.noise_high, level: LEVEL }
    }

    pub(super) fn cosine(&self) -> Interval {
        Interval { low: self.cosine_low, mid: self.cosine, high: self.cosine_high, level: LEVEL }
    }
}
