//! One step of training: responses are sampled and scored, get their credit, and the optimiser moves.
//!
//! ```text
//! prompts -> StepContext::sample -> Rollout -> StepContext::step -> StepReport
//! ```
//! A run, the synthetic step of [`crate::plan::synthetic`] and `llm-train bench` call these two functions; they differ in their [`RewardFunction`]
//! and in the [`Observer`] that watches.

pub mod engine;
pub mod error;
pub mod evidence;
pub mod micro_batch;
pub mod observer;
pub mod policy;
pub mod prompt;
pub mod reward_function;
pub mod rollout;
mod sample;
pub mod settings;
pub mod sft;
pub mod trainer;
mod update;

pub use error::PolicyError;
pub use observer::{Observer, Phase};
pub use policy::LlmPolicy;
pub use prompt::TrainingPrompt;
pub use reward_function::{RewardError, RewardFunction, TextReward};
pub use rollout::Rollout;
pub use settings::{RequestedEvidence, StepSettings, StopStrings};
pub use trainer::{StepContext, StepReport};
