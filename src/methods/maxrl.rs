//! MaxRL: centred group rewards over the group's mean.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::advantage::{Baseline, OutcomeAdvantage, Scale};
use crate::assignment::OutcomeCredit;

/// MaxRL, maximum-likelihood reinforcement learning, for rewards of at least 0.
///
/// ```text
/// A_i = (r_i - mean r) / mean r;      0 where the mean is not positive
/// ```
/// Expected update on-policy for binary rewards and a sum over tokens: the gradient of `sum_{k=1}^{G-1} -(1-p)^k / k`, the first `G - 1` terms of
/// the series of `log p`, exactly. That is `(1 - (1-p)^(G-1)) / p` times the gradient of `p`: a rare success counts up to `G - 1` times as much as
/// in RLOO.
pub static SPEC: MethodSpec = MethodSpec {
    name: "maxrl",
    title: "MaxRL",
    about: "centred group rewards divided by the group's mean reward, PPO clip, token mean",
    source: "arXiv 2602.02710; prime-rl algorithm max_rl, SkyRL advantage_estimator=maxrl",
    provenance: Provenance::Published,
    samples: &["", "clip=none reduction=response_sum"],
    params: || shared::loss(Clip::Ppo, Aggregate::TokenMean),
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let outcome = OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Mean, clamp: None };
        shared::plain(settings, Box::new(OutcomeCredit::constant(outcome)))
    },
};
