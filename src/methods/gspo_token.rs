//! GSPO-token: the sequence ratio with a gradient per token.

use super::{MethodSpec, Provenance, gspo, shared};
use crate::advantage::Baseline;
use crate::ratio::StraightThrough;
use crate::trace::Sequence;

/// GSPO-token (Zheng et al. 2025; what verl implements as GSPO).
///
/// ```text
/// s_{i,t} = sg(s_i) pi(a_t|s_t) / sg(pi(a_t|s_t)),      L = (1/B) sum_i (1/T_i) sum_t -min(s_{i,t} A, clip(s_{i,t}) A)
/// ```
/// The value is GSPO's. The gradient is too while all tokens of a response have the same advantage; it differs from
/// GSPO's under token-level advantages, for which it was made.
pub static SPEC: MethodSpec = MethodSpec {
    name: "gspo_token",
    title: "GSPO-token",
    about: "GSPO's ratio and clip with a straight-through gradient per token",
    source: "Zheng et al. 2025, arXiv 2507.18071; verl loss_mode=gspo",
    provenance: Provenance::Published,
    samples: &["epsilon_low=0.1 epsilon_high=0.1 reduction=response_sum"],
    params: gspo::params,
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let spread = shared::spread(settings, Baseline::GroupMean);
        shared::with_ratio(settings, spread, Box::new(StraightThrough(Box::new(Sequence))))
    },
};
