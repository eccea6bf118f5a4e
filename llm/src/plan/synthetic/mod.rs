//! One step of training on random prompts: what `llm-train info` counts on a dry run and `llm-train bench` times.
//!
//! It is the step of a run, the very same functions ([`Trainer::sample`](crate::step::Trainer::sample), [`Trainer::step`](crate::step::Trainer::step)),
//! observed. Only prompts and rewards are synthetic, and there is no end token, so every response has full length: the most that a step can
//! take.

mod evaluation;
mod memory_check;
mod predict;
mod recompute;
mod step;

use grpo_lambda::group::EvidenceKind;
use grpo_lambda_decoder::generate::RolloutError;
use grpo_lambda_decoder::model::Error;
use grpo_lambda_gpu::DeviceError;

use crate::step::PolicyError;
use crate::step::sft::SftError;

pub use evaluation::{EvaluationPrediction, EvaluationShape};
pub use memory_check::{ALLOWANCE, host_check, memory_check};
pub use predict::{StepPrediction, StepWork, predict};
pub use recompute::decided;
pub use step::{AlternatingRewards, RATE, StepTimings, step, synthetic_engine};

/// Why a synthetic step failed.
#[derive(Debug, thiserror::Error)]
pub enum SyntheticStepError {
    #[error(transparent)]
    Step(#[from] PolicyError),
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    /// The model refused its input, or the device failed.
    #[error(transparent)]
    Model(#[from] Error),
    #[error(transparent)]
    Sft(#[from] SftError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The method needs evidence that no device computes.
    #[error(
        "method.name={method} asks for {asked:?}, which only the CPU computes: set another method, or --device cpu"
    )]
    Evidence { method: String, asked: EvidenceKind },
}

#[cfg(test)]
mod tests;
