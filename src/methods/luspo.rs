//! LUSPO: GSPO with every token counting the same.

use super::{Aggregate, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::ratio::TraceRatio;
use crate::trace::Sequence;

/// LUSPO, length-unbiased sequence policy optimisation.
///
/// ```text
/// L = (1/B) sum_i T_i l_i,      l_i = -min(s_i A_i, clip(s_i) A_i),      s_i = exp( (1/T_i) sum_t x_t )
/// ```
/// GSPO with the sum over a response's tokens in place of their mean: on-policy its gradient is that of GRPO with a sum over tokens, which does not
/// depend on the length of the response. The bounds are those of the paper's section 5.1, as TRL's index of papers gives them.
pub static SPEC: MethodSpec = MethodSpec {
    name: "luspo",
    title: "LUSPO",
    about: "z-scored group rewards, one ratio per response (geometric mean), tight PPO clip, sum over tokens, mean over responses",
    source: "arXiv 2602.05261; TRL loss_type=luspo",
    provenance: Provenance::Published,
    samples: &["epsilon_low=0.1 epsilon_high=0.1"],
    params: || {
        let clip = shared::clip_at(2e-3, 2.5e-3);
        [shared::z_score(), clip, shared::kl(), shared::reduction(Aggregate::ResponseSum)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let spread = shared::spread(settings, Baseline::GroupMean);
        shared::with_ratio(settings, spread, Box::new(TraceRatio(Box::new(Sequence))))
    },
};
