//! The experiments, one claim each.

use crate::experiment::Experiment;

pub mod bound_in_advantage;
mod exact;
pub mod kl_estimators;
pub mod lambda_direction;
pub mod learning;
pub mod lemma_1;
pub mod length_bias;
pub mod paper_audit;

/// Every experiment, in the order of the paper and of `sim --list`.
pub static REGISTRY: &[&Experiment] = &[
    &lambda_direction::EXPERIMENT,
    &lemma_1::EXPERIMENT,
    &length_bias::EXPERIMENT,
    &kl_estimators::EXPERIMENT,
    &bound_in_advantage::EXPERIMENT,
    &learning::EXPERIMENT,
    &paper_audit::EXPERIMENT,
];
