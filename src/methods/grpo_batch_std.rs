//! GRPO scaled by the standard deviation of the whole batch.

use super::{Aggregate, Clip, Divisor, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;

/// GRPO with centred group rewards divided by the batch's standard deviation (TRL `scale_rewards="batch"`).
///
/// ```text
/// A_i = (r_i - mean_group r) / (std_batch r + epsilon)
/// ```
/// One factor for all prompts: no prompt is re-weighted against another, as it is by the group's own standard deviation. In a batch
/// of one group the two are the same.
pub static SPEC: MethodSpec = MethodSpec {
    name: "grpo_batch_std",
    title: "GRPO, batch std",
    about: "centred group rewards over the standard deviation of all rewards of the batch, PPO clip, token mean",
    source: "TRL scale_rewards=batch (default aggregation: token mean)",
    provenance: Provenance::Published,
    samples: &[""],
    params: || shared::baseline_params(Divisor::Batch, Clip::Ppo, Aggregate::TokenMean),
    extra_inputs: shared::kl_inputs,
    build: |settings| shared::baseline_method(settings, Baseline::GroupMean),
};
