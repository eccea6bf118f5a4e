//! The claims under test: one module each, one line each in [`REGISTRY`].

use crate::experiment::Experiment;

/// Every experiment, in the order they run and are listed.
pub static REGISTRY: &[&Experiment] = &[];
