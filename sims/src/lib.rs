//! The experiments.

pub mod experiment;
pub mod experiments;
pub mod figure;
