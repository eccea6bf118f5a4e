//! Supervised fine-tuning on worked solutions; only the response enters the loss.

use grpo_lambda_decoder::model::{Error as ModelError, ForwardOptions, Rows};
use grpo_lambda_decoder::optim::{OptimError, StepOutcome};
use grpo_lambda_decoder::pack::pack;

use crate::config::MemoryConfig;
use crate::step::engine::Engine;

/// A prompt with its target response, both as token ids.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The prompt; it does not enter the loss.
    pub prompt: Vec<u32>,
    /// The response, its end token included.
    pub response: Vec<u32>,
}

/// Report of a supervised step.
#[derive(Clone, Debug, PartialEq)]
pub struct SftReport {
    /// Mean of `-log pi` over the responses' tokens, in nats, before the step.
    pub loss: f64,
    /// Response tokens in the loss.
    pub tokens: usize,
    pub update: StepOutcome,
}

/// The reason why a supervised step failed.
#[derive(Debug, thiserror::Error)]
pub enum SftError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Optim(#[from] OptimError),
}

/// One step on `examples` as ragged rows, in micro-batches of at most the tokens that `memory` allows.
///
/// ```text
/// L = -(1/N) sum_i sum_t log pi(y_i,t | x_i, y_i,<t),      N = number of response tokens of the batch
/// ```
pub fn step(
    engine: &mut dyn Engine,
    examples: &[Example],
    rate: f64,
    memory: MemoryConfig,
) -> Result<SftReport, SftError> {
    let tokens: usize = examples.iter().map(|e| e.response.len()).sum();
    let lengths = examples.iter().map(|e| e.prompt.len() + e.response.len());
    // Added token by token, so that its bits do not depend on the passes.
    let mut sum = 0.0;
    let options = ForwardOptions { recompute: memory.recompute_layers, ..ForwardOptions::default() };
    for part in pack(lengths, memory.micro_batch_tokens) {
        let mut rows = Rows::new();
        for e in &examples[part] {
            let row: Vec<u32> = e.prompt.iter().chain(&e.response).copied().collect();
            rows.push(&row, e.prompt.len());
        }
        let (scores, tape) = engine.forward(&rows, options)?;
        sum = scores.logps.iter().flatten().fold(sum, |sum, logp| sum + logp);
        let dlogps: Vec<Vec<f64>> =
            scores.logps.iter().map(|row| vec![-1.0 / tokens as f64; row.len()]).collect();
        engine.backward(tape, (&dlogps).into())?;
    }
    let update = engine.step(rate)?;
    Ok(SftReport { loss: -sum / tokens as f64, tokens, update })
}
