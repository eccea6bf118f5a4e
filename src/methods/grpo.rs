//! GRPO: group-relative policy optimisation.

use super::{Aggregate, Clip, Divisor, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;

/// GRPO (DeepSeekMath; TRL `loss_type="grpo"`).
///
/// ```text
/// A_i = (r_i - mean r) / (std r + epsilon)
/// L   = (1/B) sum_i (1/T_i) sum_t [ -min(rho A, clip(rho) A) + beta k3 ]
/// ```
/// Expected update on-policy for binary rewards, uniform weights: `w_G(p) grad p`, a positive rescaling of the policy gradient
/// per prompt; dividing by `T_i` makes it no gradient of anything when lengths vary.
pub static SPEC: MethodSpec = MethodSpec {
    name: "grpo",
    title: "GRPO",
    about: "z-scored group rewards, PPO clip, mean over responses of their token mean",
    source: "Shao et al. 2024 (DeepSeekMath); TRL loss_type=grpo",
    provenance: Provenance::Published,
    samples: &[
        "",
        "reduction=token_mean std_preset=verl",
        "correction=sequence_truncate correction_high=1.2",
        "correction=token_mask correction_high=1.1 rejected=leave",
        "reject=seq_mean_k3 reject_high=0.05 off_policy_mask=0.01",
    ],
    params: || shared::baseline_params(Divisor::Group, Clip::Ppo, Aggregate::ResponseMean),
    extra_inputs: shared::kl_inputs,
    build: |settings| shared::baseline_method(settings, Baseline::GroupMean),
};
