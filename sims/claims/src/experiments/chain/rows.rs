//! The rows of `chain_updates.csv`.

use crate::experiments::common::record::Record;
use grpo_lambda_stats::Interval;

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
