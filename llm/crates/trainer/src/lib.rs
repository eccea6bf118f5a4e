//! The trainer: a real transformer under the verified methods.
//!
//! ```text
//! task / prompts -> rollout (tokens, log-probabilities) -> grade (reward) -> Method (the theory crate) -> Decoder::backward -> AdamW
//! ```
//! The loss and its gradient with respect to log-probabilities come from [`grpo_lambda::methods`], compiled once and verified
//! there; this crate turns parameters into log-probabilities and gradients of log-probabilities into gradients of parameters.
#![allow(missing_docs)] // internal to the workspace: names and comments say what is not obvious

pub mod bounded;
pub mod config;
pub mod eval;
pub mod input;
pub mod plan;
pub mod problems;
pub mod reward;
pub mod run;
pub mod step;
pub mod train;
mod words;
