//! [`PolicyError`]: why a training step failed.

use grpo_lambda_decoder::generate::RolloutError;
use grpo_lambda_decoder::model::Error as ModelError;
use grpo_lambda_decoder::optim::OptimError;
use grpo_lambda_gpu::DeviceError;

use super::evidence::EvidenceError;
use super::reward_function::RewardError;

/// Why a training step failed.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Reward(#[from] RewardError),
    #[error(transparent)]
    Optim(#[from] OptimError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// Sampler and trainer disagree: training would silently be off-policy.
    #[error(
        "response {response}, token {token}: the sampler gave it log-probability {sampled}, the trainer {trained}; \
         with the same weights they must agree, so the run stops"
    )]
    Drift {
        /// The response, in flat order.
        response: usize,
        token: usize,
        sampled: f64,
        trained: f64,
    },
    /// The rounding differences of sampler and trainer exceed the limit.
    #[error(
        "sampler and trainer give a token probabilities that differ by a factor of {mean:.4} on average (at most {max:.4}); \
         rl.max_logp_error={limit} allows less, so the run stops: dtype=f32 rounds less"
    )]
    Rounding { mean: f64, max: f64, limit: f64 },
}
