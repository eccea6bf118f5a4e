//! GSPO: the ratio of the whole sequence.

use super::{Aggregate, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::ratio::TraceRatio;
use crate::settings::Param;
use crate::trace::Sequence;

/// GSPO (Zheng et al. 2025): the uniform, non-causal trace in the ratio.
///
/// ```text
/// s_i = exp( (1/T_i) sum_t x_t ),      L = (1/B) sum_i -min(s_i A_i, clip(s_i, 1-3e-4, 1+4e-4) A_i)
/// ```
/// On-policy its gradient is GRPO's; off-policy every token of a response shares one ratio. That ratio is no importance weight of
/// the response (it is the `T`-th root of one), so the off-policy update is biased. With `reduction=response_sum` it is LUSPO, which stands in the registry under that name.
pub static SPEC: MethodSpec = MethodSpec {
    name: "gspo",
    title: "GSPO",
    about: "z-scored group rewards, one ratio per response (geometric mean), tight PPO clip, mean over responses",
    source: "Zheng et al. 2025, arXiv 2507.18071; TRL importance_sampling_level=sequence, verl",
    provenance: Provenance::Published,
    samples: &["epsilon_low=0.1 epsilon_high=0.1", "beta=0.1 kl=response_ratio_k3"],
    params,
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let spread = shared::spread(settings, Baseline::GroupMean);
        shared::with_ratio(settings, spread, Box::new(TraceRatio(Box::new(Sequence))))
    },
};

/// The settings of GSPO and GSPO-token.
pub(super) fn params() -> Vec<Param> {
    let clip = shared::clip_at(3e-4, 4e-4);
    [shared::z_score(), clip, shared::kl(), shared::reduction(Aggregate::ResponseMean)].concat()
}
