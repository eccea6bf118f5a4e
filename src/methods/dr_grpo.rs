//! Dr. GRPO: GRPO without the division by the standard deviation and by the length.

use super::{Aggregate, Clip, Divisor, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;

/// Dr. GRPO (understand-r1-zero; TRL `loss_type="dr_grpo"` with `scale_rewards=False`).
///
/// ```text
/// A_i = r_i - mean r
/// L   = 1/(B L_max) sum_i sum_t [ -min(rho A, clip(rho) A) + beta k3 ]
/// ```
/// Expected update on-policy: `(G-1)/G` times the policy gradient, over `L_max`. Unbiased in direction.
pub static SPEC: MethodSpec = MethodSpec {
    name: "dr_grpo",
    title: "Dr. GRPO",
    about: "centred group rewards, PPO clip, sum over tokens divided by a constant length",
    source: "Liu et al. 2025 (understand-r1-zero); TRL loss_type=dr_grpo",
    provenance: Provenance::Published,
    samples: &["max_length=4"],
    params: || shared::baseline_params(Divisor::None, Clip::Ppo, Aggregate::Constant),
    extra_inputs: shared::kl_inputs,
    build: |settings| shared::baseline_method(settings, Baseline::GroupMean),
};
