//! The language-model side of grpo-lambda.
//!
//! Nothing is trained here yet. [`model`] holds the differentiable decoder; the rollout and the trainer that drive the
//! methods of [`grpo_lambda`](../grpo_lambda/index.html) on it will follow, and until then the binary says so and fails.

pub mod model;
