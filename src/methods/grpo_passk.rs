//! Pass@k training: only the best response of a group learns.

use super::{Aggregate, Clip, Divisor, MethodSpec, Preset, Provenance, shared};
use crate::advantage::Baseline;
use crate::assignment::BestOfGroup;

/// Policy gradient of the best reward of a group (pass@k for binary rewards). See [`BestOfGroup`].
///
/// ```text
/// A_best = (r_max - r_second) / (std r + epsilon),      0 for all others and where two share the best reward
/// ```
/// Without the division its expected update is the gradient of the expected best reward of a group of `g`: the second best is what the group
/// would earn without the best.
pub static SPEC: MethodSpec = MethodSpec {
    name: "grpo_passk",
    title: "GRPO, pass@k",
    about: "the best response's lead over the second best as its advantage, 0 for the others, PPO clip, token mean",
    source: "Tang et al. 2025, arXiv 2503.19595; verl adv_estimator=grpo_passk",
    provenance: Provenance::Published,
    samples: &["", "scale=none reduction=response_sum"],
    params: || {
        let scale = shared::scale(Divisor::Group, Preset::Verl);
        [scale, shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let scale = shared::outcome(settings, Baseline::GroupMean);
        shared::plain(settings, Box::new(BestOfGroup { scale }))
    },
};
