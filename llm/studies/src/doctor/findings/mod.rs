//! One file per finding.

mod clip_share;
mod constant_reward;
mod divergence;
mod drift;
mod entropy_collapse;
mod gradient_norm;
mod kl_explodes;
mod length_bonus;
mod memorised;
mod no_variance;
mod ratio_off_policy;
mod truncation;

use super::Check;

/// All of them, the gravest first.
pub static REGISTRY: [&Check; 12] = [
    &constant_reward::CHECK,
    &no_variance::CHECK,
    &divergence::CHECK,
    &memorised::CHECK,
    &kl_explodes::CHECK,
    &entropy_collapse::CHECK,
    &gradient_norm::CHECK,
    &ratio_off_policy::CHECK,
    &drift::CHECK,
    &clip_share::CHECK,
    &truncation::CHECK,
    &length_bonus::CHECK,
];
