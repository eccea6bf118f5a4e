//! The claims under test: one module each, one line each in [`REGISTRY`].

use crate::experiment::Experiment;

pub mod bound_in_advantage;
mod exact;
pub mod kl_estimators;
pub mod lambda_direction;
pub mod lemma_1;
pub mod length_bias;

/// Every experiment, in the order of tables.
pub static REGISTRY: &[&Experiment] = &[
    &lambda_direction::EXPERIMENT,
    &lemma_1::EXPERIMENT,
    &length_bias::EXPERIMENT,
    &kl_estimators::EXPERIMENT,
    &bound_in_advantage::EXPERIMENT,
];
