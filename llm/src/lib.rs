//! The language-model side of grpo-lambda: the verified methods on a real transformer.
//!
//! ```text
//! task / prompts -> rollout (tokens, log-probabilities) -> grade (reward) -> Method (the theory crate) -> Decoder::backward -> AdamW
//! ```
//! The loss and its gradient with respect to log-probabilities come from [`grpo_lambda::methods`], compiled once and verified
//! there; this crate turns parameters into log-probabilities and gradients of log-probabilities into gradients of parameters.

pub mod cli;
pub mod collective;
pub mod commands;
pub mod compare;
pub mod config;
pub mod curves;
pub mod data;
pub mod disk;
pub mod drift;
pub mod engine;
pub mod eval;
pub mod evidence;
pub mod figures;
pub mod gpu;
pub mod grade;
pub mod lora;
pub mod memory;
pub mod micro_batch;
pub mod model;
pub mod optim;
pub mod policy;
pub mod progress;
pub mod prompt;
pub mod record;
pub mod reproduce;
pub mod reward;
pub mod rng;
pub mod rollout;
pub mod roofline;
pub mod run_dir;
pub mod schedule;
pub mod sft;
pub mod shapes;
pub mod task;
pub mod token_weights;
pub mod tokens;
pub mod train;
pub mod truncation;
pub mod vocabulary;
