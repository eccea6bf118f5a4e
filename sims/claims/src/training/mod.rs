//! What experiments that train policies share: tasks, streams of random numbers, the choice of learning rates.

pub(crate) mod rates;
pub(crate) mod stream;
pub(crate) mod task;

use grpo_lambda_stats::mean;

/// Responses per group, one group per update.
pub(crate) const GROUP: usize = 8;
/// The share of `J*` that counts as learned.
pub(crate) const LEARNED: f64 = 0.9;

/// The mean over tasks of each task's mean over runs: what tests of differences are about, and what a run that goes wrong weighs in.
pub(crate) fn mean_of_means(tasks: &[Vec<f64>]) -> f64 {
    tasks.iter().map(|runs| mean(runs).unwrap_or(f64::NAN)).sum::<f64>() / tasks.len() as f64
}
