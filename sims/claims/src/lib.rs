//! The experiments of grpo-lambda: every claim with its verdict, data and figure.
#![allow(missing_docs)] // internal to the workspace: names and comments say what is not obvious

pub mod atlas;
pub mod endpoints;
pub mod experiment;
pub mod experiments;
pub mod report;
pub mod run;
pub mod sentences;
pub mod store;
mod training;

pub use grpo_lambda_figure as figure;
