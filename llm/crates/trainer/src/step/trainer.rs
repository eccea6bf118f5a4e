//! [`Trainer`]: what every step of a run shares, and [`StepReport`]: what a step did.

use grpo_lambda::methods::Method;
use grpo_lambda::metrics::Metrics;
use grpo_lambda_decoder::drift::Drift;
use grpo_lambda_decoder::optim::StepOutcome;

use super::observer::Observer;
use super::reward_function::RewardFunction;
use super::settings::StepSettings;

/// What every step of a run shares. It holds no state: that of training is in the engine.
#[derive(Clone, Copy)]
pub struct Trainer<'a> {
    /// How responses are sampled and scored, and how the weights move.
    pub settings: &'a StepSettings,
    /// The method that turns rewards into gradients.
    pub method: &'a dyn Method,
    /// Where the rewards come from.
    pub rewards: &'a dyn RewardFunction,
    /// Who watches.
    pub observer: &'a dyn Observer,
}

/// What a step did.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// Metrics of the method, of the last inner update.
    pub metrics: Metrics,
    /// What the optimiser did at each inner update.
    pub updates: Vec<StepOutcome>,
    /// How far sampler and trainer were apart on the rollout, where both used the same weights.
    pub drift: Drift,
    /// The learning rate.
    pub rate: f64,
}

impl StepReport {
    /// The first inner update that was skipped, or else the last: a skipped one is not hidden by those after it.
    pub fn update(&self) -> Option<&StepOutcome> {
        let skipped = self.updates.iter().find(|u| matches!(u, StepOutcome::Skipped { .. }));
        skipped.or(self.updates.last())
    }
}
