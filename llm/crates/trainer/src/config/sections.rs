//! The sections of a configuration.

use std::path::PathBuf;

use grpo_lambda::systematic::Sets;
use grpo_lambda_decoder::optim::AdamWSettings;
use grpo_lambda_gpu::StatePlace;

use super::schedule::Schedule;

/// The origin of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// A Hugging Face checkpoint directory.
    Checkpoint(PathBuf),
    /// Random weights in this shape.
    Random(ModelShape),
}

/// The shape of a new model; its vocabulary is the tokenizer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelShape {
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Width inside the feed-forward part.
    pub intermediate: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SftConfig {
    pub steps: u64,
    /// Examples per step.
    pub batch: usize,
    /// Share of the examples with worked steps; the others give the answer alone.
    pub worked_share: f64,
    /// Learning rate of every step.
    pub schedule: Schedule,
    pub adam: AdamWSettings,
}

/// Trades memory for time; changes no result on the CPU, and on a card its rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// Tokens per forward pass; a longer row is a pass of its own.
    pub micro_batch_tokens: usize,
    /// True if the backward pass recomputes a layer's activations, which takes less memory; `auto` is true until
    /// [`Config::deciding_recomputation`](super::Config::deciding_recomputation).
    pub recompute_layers: bool,
    /// The place of the optimiser's state on a card.
    pub optimiser: StatePlace,
    /// Responses decoded at a time by every process; `None`: all of a step, [`EVAL_BATCH`](crate::eval::EVAL_BATCH) of an evaluation.
    pub slots: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RlConfig {
    /// Steps: batches sampled.
    pub steps: u64,
    /// Problems per step.
    pub prompts_per_step: usize,
    /// Responses per problem.
    pub group_size: usize,
    /// The sets in which they are sampled systematically; `None` for independent responses.
    pub sets: Option<Sets>,
    /// Gradient steps per batch.
    pub inner_updates: usize,
    /// Learning rate of every step; inner updates share their step's.
    pub schedule: Schedule,
    pub adam: AdamWSettings,
    /// Length limit of a response.
    pub max_new_tokens: usize,
    /// Sampling temperature.
    pub temperature: f64,
    /// True to sample until enough groups are mixed.
    pub dynamic_sampling: bool,
    /// Consecutive skipped steps before the run stops.
    pub max_nan_steps: u64,
    /// The largest mean error of [`grpo_lambda_decoder::drift::Drift`] with which the run goes on.
    pub max_logp_error: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct EvalConfig {
    pub n: usize,
    /// Steps between evaluations; 0: only before and after.
    pub every: u64,
    /// 0: greedy.
    pub temperature: f64,
    /// Evaluations in a row without a higher accuracy after which RL stops; 0: never.
    pub patience: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointConfig {
    pub every: u64,
    /// Checkpoints that stay.
    pub keep: usize,
    /// True if the best evaluation's checkpoint stays too.
    pub best: bool,
}
