//! OPO: the mean reward weighted by length as the baseline.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::assignment::LengthBaseline;

/// OPO, on-policy RL with an optimal reward baseline. See [`LengthBaseline`].
///
/// ```text
/// A_i = r_i - sum_j T_j r_j / sum_j T_j
/// L   = 1/(sum_i T_i) sum_i sum_t -min(rho A, clip(rho) A)
/// ```
/// The paper trains on-policy, where the clip has no effect. The weighted mean minimises the variance of the update if the squared length of a
/// response's score grows as its number of tokens. The response's own reward is part of its baseline.
pub static SPEC: MethodSpec = MethodSpec {
    name: "opo",
    title: "OPO",
    about: "rewards minus the group's mean reward weighted by length, PPO clip, token mean",
    source: "Hao et al. 2025, arXiv 2505.23585; verl adv_estimator=opo",
    provenance: Provenance::Published,
    samples: &[""],
    params: || shared::loss(Clip::Ppo, Aggregate::TokenMean),
    extra_inputs: shared::kl_inputs,
    build: |settings| shared::plain(settings, Box::new(LengthBaseline)),
};
