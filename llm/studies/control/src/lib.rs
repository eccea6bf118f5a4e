//! Controlled experiments: many small runs in memory, from the same start and on the same prompts, that differ in
//! one thing.
//!
//! | experiment | question |
//! | --- | --- |
//! | [`noise`] | what does a trace with clamped advantages do where the reward says nothing? |
//! | [`clamp`] | which part of the clamp gains on addition, at which learning rate, with which optimiser? |
//! | [`baseline`] | how much variance do values of prefixes take from RLOO's gradient on addition? |
//! | [`rates`] | do systematic groups, the trace, the clamp teach addition faster, each at its own rate? how far from the start? |
//! | [`chain`] | which methods assign credit where it is known to matter? |
//!
//! A run's numbers are a row of a CSV file, written as soon as the run is done; the same command goes on where it
//! was stopped. Nothing else is kept of a run. `cargo run --release -p grpo-lambda-control -- noise FILE 10` is the
//! command.
#![allow(missing_docs)] // internal to the workspace: names and comments say what is not obvious

mod arm;
pub mod baseline;
pub mod chain;
pub mod clamp;
mod fill;
mod force;
mod lab;
pub mod noise;
pub mod rates;
mod store;

pub use lab::LabError;
