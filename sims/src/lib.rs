//! The experiments of grpo-lambda: every claim with its verdict, data and figure.

pub mod experiment;
pub mod experiments;
pub mod figure;
