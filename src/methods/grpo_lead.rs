//! GRPO-LEAD: shorter right responses earn more, and groups weigh by their difficulty.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::assignment::DifficultyWeighted;
use crate::settings::Param;

/// GRPO-LEAD. See [`DifficultyWeighted`].
///
/// ```text
/// R_i = exp(-alpha z_i) where right, else -1,      z_i the z-score of a right response's length among the right ones
/// A_i = a_i w(p) where a_i > 0, else a_i w(1 - p),      a = (R - mean R) / (std R + 1e-4)
/// ```
/// With `alpha=0` every right response of a group has one advantage and every wrong one another, and they sum to 0 at `p = 1/2` alone: where success is
/// rarer the sum is positive, so that the update raises whatever was sampled.
pub static SPEC: MethodSpec = MethodSpec {
    name: "grpo_lead",
    title: "GRPO-LEAD",
    about: "z-scores of rewards that fall with a right response's length, weighed by the group's success rate, PPO clip, mean over responses",
    source: "Zhang and Zuo 2025, arXiv 2504.09696, Section 3; the constants as a public reimplementation quotes them",
    provenance: Provenance::Published,
    samples: &["", "alpha=0.5 steepness=2 middle=0.5"],
    params: || {
        let number = |key, default, max, about| Param::number(key, default, 0.0, max, about);
        let own = vec![
            number("alpha", 0.05, 10.0, "strength of the penalty of a right response's length"),
            number("weight_low", 0.4, 1e3, "weight of a group whose success is certain (their A)"),
            number("weight_high", 1.5, 1e3, "weight of a group whose success is rare (their B)"),
            number("steepness", 10.0, 1e3, "slope of the weight in the success rate (their k)"),
            number("middle", 0.75, 1.0, "success rate at which the weight is half way (their rho_0)"),
        ];
        [own, shared::z_score(), shared::loss(Clip::Ppo, Aggregate::ResponseMean)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let weighted = DifficultyWeighted {
            outcome: shared::outcome(settings, Baseline::GroupMean),
            alpha: settings.number("alpha"),
            bounds: (settings.number("weight_low"), settings.number("weight_high")),
            steepness: settings.number("steepness"),
            middle: settings.number("middle"),
        };
        shared::plain(settings, Box::new(weighted))
    },
};
