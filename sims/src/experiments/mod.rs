//! The experiments, one claim each.

use crate::experiment::Experiment;

pub mod paper_audit;

/// Every experiment, in the order of `sim --list`.
pub static REGISTRY: &[&Experiment] = &[&paper_audit::EXPERIMENT];
