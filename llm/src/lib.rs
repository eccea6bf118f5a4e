//! The language-model side of grpo-lambda.
//!
//! Nothing is trained here yet. This crate will hold the differentiable decoder,
//! the rollout and the trainer that drive the methods of [`grpo_lambda`](../grpo_lambda/index.html)
//! on a transformer; until then its binary says so and fails.

// Task, tokens, configuration, optimiser state, run directory.
pub mod config;
pub mod grade;
pub mod optim;
pub mod progress;
pub mod rng;
pub mod run_dir;
pub mod task;
pub mod tokens;
pub mod vocabulary;
