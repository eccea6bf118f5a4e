//! Beta Normalization Policy Optimization.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::assignment::BetaNormal;
use crate::settings::Param;

/// BNPO with Beta normalisation (Xiao, Zhang and Cao 2025), see [`BetaNormal`] for the formulas.
///
/// Not the aggregation that TRL calls `bnpo`. Expected update on-policy: the policy gradient times a positive factor per prompt, which
/// depends on the group's own success rate; for binary rewards that rescales and does not turn it.
pub static SPEC: MethodSpec = MethodSpec {
    name: "bnpo_beta",
    title: "BNPO (Beta normalisation)",
    about: "centred group rewards over a Beta density of the group's success rate, PPO clip, token mean",
    source: "Xiao, Zhang and Cao 2025, arXiv 2506.02864, and the authors' code (advantage only; loss of verl)",
    provenance: Provenance::Published,
    samples: &["alpha=1.2 beta_shape=2"],
    params: || {
        let own = vec![
            Param::optional(
                "alpha",
                None,
                1.0,
                1e3,
                "first shape of the Beta density; none: from the moments of the batch",
            ),
            Param::optional(
                "beta_shape",
                None,
                1.0,
                1e3,
                "second shape of the Beta density; none: from the moments of the batch",
            ),
        ];
        [own, shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let (alpha, beta) = (settings.optional("alpha"), settings.optional("beta_shape"));
        shared::plain(settings, Box::new(BetaNormal { low: 0.0, high: 1.0, alpha, beta }))
    },
};
