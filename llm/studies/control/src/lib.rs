//! Controlled experiments: many small runs in memory, from the same start and on the same prompts, that differ in
//! one thing.
//!
//! | module | runs |
//! | --- | --- |
//! | [`study`] | a protocol of `paper/protocols` on the tasks of `llm-train`: its arms, seeds, rates and columns are data |
//! | [`chain`] | a protocol on chains of operations, on which credit is known to matter |
//! | [`branch`] | a protocol on both tasks, of methods with trees, completions or a critic of their own |
//!
//! All fill the rows that a file lacks, seed by seed, and take the rates from `grpo_lambda_trials`. Runs of [`chain`] and
//! [`branch`] end after a number of sampled tokens, those of [`study`] after a number of steps.
//!
//! A run's numbers are a row of a CSV file, written as soon as the run is done; the same command goes on where it
//! was stopped. Nothing else is kept of a run.
//! `cargo run --release -p grpo-lambda-control -- study paper/protocols/noise.toml FILE` is the command.
#![allow(missing_docs)] // internal to the workspace: names and comments say what is not obvious

mod arm;
pub mod branch;
pub mod chain;
mod course;
mod exam;
mod fill;
mod force;
mod lab;
mod store;
pub mod study;
mod trials;
mod variance;

pub use lab::LabError;
