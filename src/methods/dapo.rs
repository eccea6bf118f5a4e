//! DAPO: asymmetric clip, global token mean, penalty of overlong responses.

use super::{Aggregate, MethodSpec, Provenance, shared};
use crate::advantage::{Baseline, Delta};
use crate::assignment::{OutcomeCredit, Overlong};
use crate::settings::Param;

/// DAPO (Yu et al. 2025).
///
/// ```text
/// A_i = (r_i + penalty(T_i) - mean) / (std + epsilon)
/// L   = 1/(sum_i T_i) sum_i sum_t -min(rho A, clip(rho, 1-0.2, 1+0.28) A)
/// ```
/// Dynamic sampling, the refilling of groups whose rewards agree, is the trainer's: such a group teaches nothing here.
/// Overlong filtering is `mask_truncated`. The penalty is off until a length limit is given; the paper's is
/// `overlong_limit=20480 overlong_cache=4096`.
pub static SPEC: MethodSpec = MethodSpec {
    name: "dapo",
    title: "DAPO",
    about: "z-scored group rewards with a penalty of overlong responses, PPO clip with a higher upper bound, mean over all tokens",
    source: "Yu et al. 2025, arXiv 2503.14476; TRL and verl",
    provenance: Provenance::Published,
    samples: &["", "overlong_limit=3 overlong_cache=2"],
    params: || {
        let overlong = vec![
            Param::optional(
                "overlong_limit",
                None,
                1.0,
                1e9,
                "length at which the penalty reaches -1 (the paper: 20480); none: no penalty",
            ),
            Param::number(
                "overlong_cache",
                4096.0,
                1.0,
                1e9,
                "tokens before the limit over which the penalty grows",
            )
            .idle_under("overlong_limit", &["none"]),
        ];
        let clip = shared::clip_at(0.2, 0.28);
        [shared::z_score(), overlong, clip, shared::kl(), shared::reduction(Aggregate::TokenMean)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let cache = settings.number("overlong_cache");
        let overlong = settings.optional("overlong_limit").map(|limit| Overlong { limit, cache });
        let outcome = shared::outcome(settings, Baseline::GroupMean);
        shared::plain(settings, Box::new(OutcomeCredit { outcome, delta: Delta::Constant, overlong }))
    },
};
