//! The claims put to the test, one file each, under the same id as their module in `tests/theory`.

use crate::experiment::Experiment;

mod common;

pub mod clamp;
pub mod clip_form;
pub mod credit_profile;
pub mod equation_15;
pub mod figure_2;
pub mod lambda_zero;
pub mod theorem_1;
pub mod traces;

/// Every experiment, in the order of the report. Adding one is its file, its `mod` line and its line here.
pub static REGISTRY: &[&Experiment] = &[
    &theorem_1::EXPERIMENT,
    &equation_15::EXPERIMENT,
    &traces::EXPERIMENT,
    &figure_2::EXPERIMENT,
    &credit_profile::EXPERIMENT,
    &lambda_zero::EXPERIMENT,
    &clip_form::EXPERIMENT,
    &clamp::EXPERIMENT,
];
