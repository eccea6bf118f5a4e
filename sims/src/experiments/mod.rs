//! The claims put to the test, one module each, under the same id as their module in `tests/theory`.

use crate::experiment::Experiment;

pub mod learning;

/// Every experiment, in the order of the report. Adding one is its file, its `mod` line and its line here.
pub static REGISTRY: &[&Experiment] = &[&learning::EXPERIMENT];
