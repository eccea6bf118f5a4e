//! CISPO: the clipped ratio as a held weight.

use super::{Aggregate, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::ratio::{HeldWeight, PolicyRatio};
use crate::settings::{Param, choice};
use crate::surrogate::Surrogate;

choice! {
    /// The bounds of the weight.
    enum ClipForm { "cap" => Cap, "interval" => Interval }
}

choice! {
    /// The ratio that the weight is.
    enum Ratio { "token" => Token, "product" => Product }
}

/// CISPO (MiniMax-M1).
///
/// ```text
/// L = 1/(sum_i T_i) sum_i sum_t -sg(clip(rho_t)) A_i log pi(a_t|s_t)
/// clip_form=cap        min(rho, cap), cap 5              TRL
/// clip_form=interval   clip(rho, 1-0.2, 1+0.28)          verl
/// ```
/// With `ratio=product` the weight is the response's whole ratio, clipped (verl's `bypass_mode` with `rollout_is=sequence`). No token loses its gradient. On-policy it is GRPO's gradient under the same aggregation (its value is another number).
pub static SPEC: MethodSpec = MethodSpec {
    name: "cispo",
    title: "CISPO",
    about: "z-scored group rewards, clipped ratio as a held weight of log pi, mean over all tokens",
    source: "MiniMax-M1, arXiv 2506.13585; TRL and verl",
    provenance: Provenance::Published,
    samples: &["cap=1.3", "ratio=product cap=1.5", "clip_form=interval beta=0.1"],
    params: || {
        let clip = vec![
            Param::choice(
                "ratio",
                Ratio::Token,
                "ratio that is clipped: each token's own, or the product over its response",
            ),
            Param::choice(
                "clip_form",
                ClipForm::Cap,
                "the ratio is capped at cap (TRL), or clipped to [1 - epsilon_low, 1 + epsilon_high] (verl)",
            ),
            Param::number(
                "cap",
                5.0,
                1.0,
                1e9,
                "largest weight for clip_form=cap; TRL calls it epsilon_high",
            )
            .idle_under("clip_form", &["interval"]),
            Param::number(
                "epsilon_low",
                0.2,
                0.0,
                1.0,
                "smallest weight is 1 - epsilon_low for clip_form=interval",
            )
            .idle_under("clip_form", &["cap"]),
            Param::number(
                "epsilon_high",
                0.28,
                0.0,
                1e9,
                "largest weight is 1 + epsilon_high for clip_form=interval",
            )
            .idle_under("clip_form", &["cap"]),
        ];
        [shared::z_score(), clip, shared::kl(), shared::reduction(Aggregate::TokenMean)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let (low, high) = match settings.choice("clip_form") {
            ClipForm::Cap => (0.0, settings.number("cap")),
            ClipForm::Interval => {
                (1.0 - settings.number("epsilon_low"), 1.0 + settings.number("epsilon_high"))
            }
        };
        let spread = shared::spread(settings, Baseline::GroupMean);
        let product = HeldWeight { positive: (low, high), negative: (low, high) };
        let (ratio, surrogate): (Box<dyn PolicyRatio>, Surrogate) = match settings.choice("ratio") {
            Ratio::Token => (shared::token_ratio(), Surrogate::Detached { low, high }),
            Ratio::Product => (Box::new(product), Surrogate::Score),
        };
        Box::new(shared::objective(settings, spread, ratio, surrogate))
    },
};
