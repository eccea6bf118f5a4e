//! The experiments, one claim each.

use crate::experiment::Experiment;

pub mod bound_in_advantage;
pub mod clamp;
pub mod clip_form;
pub(crate) mod common;
pub mod credit_profile;
pub mod equation_15;
pub mod figure_2;
pub mod kl_estimators;
pub mod lambda_direction;
pub mod lambda_zero;
pub mod learning;
pub mod lemma_1;
pub mod length_bias;
pub mod paper_audit;
pub mod theorem_1;
pub mod traces;

/// Every experiment, in the order of the paper and of `sim --list`.
pub static REGISTRY: &[&Experiment] = &[
    &theorem_1::EXPERIMENT,
    &equation_15::EXPERIMENT,
    &traces::EXPERIMENT,
    &figure_2::EXPERIMENT,
    &credit_profile::EXPERIMENT,
    &lambda_zero::EXPERIMENT,
    &lambda_direction::EXPERIMENT,
    &lemma_1::EXPERIMENT,
    &clip_form::EXPERIMENT,
    &clamp::EXPERIMENT,
    &length_bias::EXPERIMENT,
    &kl_estimators::EXPERIMENT,
    &bound_in_advantage::EXPERIMENT,
    &learning::EXPERIMENT,
    &paper_audit::EXPERIMENT,
];
