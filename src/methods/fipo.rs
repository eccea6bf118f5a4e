//! FIPO: a held weight of each token from the ratios of the tokens after it.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::ratio::FutureWeight;
use crate::settings::Param;

/// FIPO, future-KL influenced policy optimisation. See [`FutureWeight`].
///
/// ```text
/// L = 1/(sum_i T_i) sum_i sum_t -f_t min(rho_t A_i, clip(rho_t) A_i),      f_t = sg( clip(exp(sum_{k>=t} 2^(-(k-t)/32) x_k), 1, 1.2) )
/// ```
/// On-policy every log-ratio is 0, so that `f = 1`: the first update on a batch is GRPO's, exactly. Under `clip=two_sided` (ms-swift: `delta`; 10 in
/// the authors' script for 32B) a token whose ratio exceeds `clip_max` leaves the sums of all weights, too.
pub static SPEC: MethodSpec = MethodSpec {
    name: "fipo",
    title: "FIPO",
    about: "z-scored group rewards, PPO clip, each token weighed by the decayed ratios of the tokens after it, token mean",
    source: "arXiv 2603.19835; ms-swift loss_type=fipo",
    provenance: Provenance::Published,
    samples: &[
        "half_life=2",
        "half_life=2 high_only=false safety=1.05",
        "half_life=2 clip=two_sided clip_max=1.2",
    ],
    params: || {
        let own = vec![
            Param::number(
                "half_life",
                32.0,
                1e-3,
                1e9,
                "tokens after which a ratio counts half (ms-swift: fipo_decay_rate)",
            ),
            Param::number(
                "weight_epsilon",
                0.2,
                0.0,
                1.0,
                "the weight is clipped above at 1 plus this (ms-swift: fipo_clip_range)",
            ),
            Param::flag("high_only", true, "the weight is at least 1; else at least 1 - weight_epsilon"),
            Param::number(
                "safety",
                4.0,
                1.0,
                1e9,
                "tokens of negative advantage with a larger ratio have a weight of 0.8 to 1",
            ),
        ];
        [own, shared::z_score(), shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let epsilon = settings.number("weight_epsilon");
        let low = if settings.flag("high_only") { 1.0 } else { 1.0 - epsilon };
        let two_sided = settings.choice::<Clip>("clip") == Clip::TwoSided;
        let ratio = FutureWeight {
            cap: if two_sided { settings.number("clip_max") } else { f64::INFINITY },
            q: 0.5f64.powf(1.0 / settings.number("half_life")),
            bounds: (low, 1.0 + epsilon),
            safety: settings.number("safety"),
        };
        shared::with_ratio(settings, shared::spread(settings, Baseline::GroupMean), Box::new(ratio))
    },
};
