//! Controlled experiments: many small runs in memory, from the same start and on the same prompts, that differ in
//! one thing.
//!
//! | module | runs |
//! | --- | --- |
//! | [`chain`] | a protocol on chains of operations, on which credit is known to matter |
//! | [`branch`] | a protocol on both tasks, of methods with trees, completions or a critic of their own |
//!
//! Both fill the rows that a file lacks, seed by seed, take the rates from `grpo_lambda_trials` and end a run after a
//! number of sampled tokens. The protocols of the studies that are done name the commit that has their program.
//!
//! A run's numbers are a row of a CSV file, written as soon as the run is done; the same command goes on where it
//! was stopped. Nothing else is kept of a run.
//! `cargo run --release -p grpo-lambda-control -- branch paper/protocols/branch.toml addition FILE` is the command.
#![allow(missing_docs)] // internal to the workspace: names and comments say what is not obvious

#[cfg(test)]
#[path = "../../../tests/llm/common/cases.rs"]
mod cases;

pub mod branch;
pub mod chain;
mod course;
mod fill;
mod gradient;
mod lab;
mod store;
mod trials;

pub use lab::{LabError, Result};
