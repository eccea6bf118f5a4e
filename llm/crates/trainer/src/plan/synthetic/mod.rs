//! One step of training on random prompts, for dry runs that count it and benchmarks that time it.
//!
//! It is the step of a run ([`StepContext`](crate::step::StepContext)), observed. Only prompts and rewards are synthetic, and there is no end token,
//! so every response has full length: the most that a step can take.

mod clock;
mod evaluation;
mod memory_check;
mod predict;
mod step;

use grpo_lambda::group::InputKind;
use grpo_lambda_decoder::generate::RolloutError;
use grpo_lambda_decoder::model::Error;
use grpo_lambda_gpu::DeviceError;

use crate::step::PolicyError;
use crate::step::sft::SftError;

pub use clock::{Clocked, Moment};
pub use evaluation::{EvaluationPrediction, EvaluationShape};
pub use memory_check::{ALLOWANCE, decided, host_check, memory_check};
pub use predict::{StepPrediction, StepWork, predict, predict_at};
pub use step::{AlternatingRewards, StepTimings, step, synthetic_engine};

/// The reason why a synthetic step failed.
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
    /// The method needs extra inputs that no device computes, or that depend on the text of responses.
    #[error("method.name={method}: a synthetic step has no {}; choose another method", asked.name())]
    ExtraInputs { method: String, asked: InputKind },
}

/// The result of a synthetic step, or of counting one.
pub type Result<T, E = SyntheticStepError> = std::result::Result<T, E>;
