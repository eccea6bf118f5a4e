//! The rows of the data files that others read.

use crate::experiments::common::record::Record;
use grpo_lambda_stats::Interval;
use serde::Deserialize;

/// The columns of a row of `chain_compared.csv` that pages quote.
#[derive(Deserialize)]
pub(crate) struct ComparedRow {
    /// `gate`, `family` (which Holm corrects) or `reported`.
    pub(crate) role: String,
    pub(crate) method: String,
    pub(crate) with: String,
    pub(crate) difference: f64,
    pub(crate) difference_low: f64,
    pub(crate) difference_high: f64,
    /// `higher`, `lower`, `equivalent` or `inconclusive`; outside the family nothing.
    pub(crate) verdict: String,
}

/// The update of a method at a place of a run, over the seeds.
#[derive(Clone, Debug)]
pub(super) struct UpdateRow {
    pub(super) place: String,
    pub(super) arm: String,
    pub(super) seeds: usize,
    /// The noise over RLOO's of the same seed.
    pub(super) noise: Interval,
    /// The cosine with the gradient over RLOO's.
    pub(super) cosine: Interval,
    /// The size of a wrong response's credit after the first error over that before it.
    pub(super) credit_after_over_before: f64,
    /// Rank correlation of a value's credit with the exact one.
    pub(super) rank_correlation: Option<f64>,
}

impl UpdateRow {
    /// Its row of `chain_updates.csv`.
    pub(super) fn record(&self) -> Record {
        Record::default()
            .with("place", &*self.place)
            .with("arm", &*self.arm)
            .with("seeds", self.seeds)
            .interval("noise", self.noise)
            .interval("cosine", self.cosine)
            .with("credit_after_over_before", self.credit_after_over_before)
            .with("rank_correlation", self.rank_correlation)
    }
}
