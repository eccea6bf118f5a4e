//! Each method's exact effect on the initial policy.

use grpo_lambda::trace::Trace;
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::expected::{Comparison, Situation, compare, implied};

use super::reading::Reading;
use crate::training::GROUP;
use crate::training::task::Task;

/// The expected first update of a reading against the policy gradient; `None` if the exact sum would take too long.
///
/// # Errors
/// If the settings are refused.
pub(super) fn first_update(
    task: &Task,
    reading: &Reading,
    unit_mean: bool,
) -> anyhow::Result<Option<Comparison>> {
    let method = reading.build(task, unit_mean)?;
    let situation = Situation::on_policy(&task.tree, &task.start, GROUP);
    let oracle = Oracle::new(&task.tree, &task.start);
    Ok(implied(method.as_ref(), &situation).ok().map(|update| compare(&update, &oracle)))
}

/// The implied credit `ω(s,a)` per edge of the expected first update.
///
/// # Errors
/// If the settings are refused or the exact sum would take too long.
pub(super) fn credit(task: &Task, reading: &Reading) -> anyhow::Result<Vec<f64>> {
    let method = reading.build(task, false)?;
    Ok(implied(method.as_ref(), &Situation::on_policy(&task.tree, &task.start, GROUP))?.credit)
}

/// The mean on-policy weight of a token under a trace, `E[Σ_k c_k] / E[T]`, for the initial policy.
pub(super) fn mean_weight(task: &Task, trace: &dyn Trace) -> f64 {
    let oracle = Oracle::new(&task.tree, &task.start);
    let length = |leaf| task.tree.leaf_len(leaf);
    let mass = oracle.expect(|leaf| trace.column_sums(length(leaf)).iter().sum());
    mass / oracle.expect(|leaf| length(leaf) as f64)
}
