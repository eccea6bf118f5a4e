//! The 80/20 rule: policy gradient on high-entropy tokens only.

use super::{Aggregate, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::assignment::HighEntropy;
use crate::group::InputKind;

/// GRPO on the fifth of the tokens that have the highest entropy (Wang et al. 2025; TRL `top_entropy_quantile`).
///
/// ```text
/// L = 1/(sum T) sum_i sum_t [ 1{H_t >= tau} l_i,t + beta KL ],      tau = the 0.8 quantile of H over the batch
/// ```
/// The denominator keeps all tokens, as in TRL. With `entropy_threshold` the mask depends on the prefix alone and the
/// expected update is the policy gradient of the prefixes kept; with a share it also depends on the rest of the batch.
pub static SPEC: MethodSpec = MethodSpec {
    name: "high_entropy",
    title: "80/20 high-entropy mask",
    about: "z-scored group rewards at the tokens of highest entropy and nothing at the others, PPO clip with a higher upper bound, token mean",
    source: "Wang et al. 2025, arXiv 2506.01939 (on DAPO); TRL top_entropy_quantile",
    provenance: Provenance::Published,
    samples: &["entropy_threshold=0.5", "entropy_scope=response top_fraction=0.5", ""],
    params: || {
        let clip = shared::clip_at(0.2, 0.28);
        [shared::selection(), shared::z_score(), clip, shared::kl(), shared::reduction(Aggregate::TokenMean)]
            .concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Entropies),
    build: |settings| {
        let inner = shared::spread(settings, Baseline::GroupMean);
        shared::plain(settings, Box::new(HighEntropy { inner, selection: shared::selection_of(settings) }))
    },
};
