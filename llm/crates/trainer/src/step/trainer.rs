//! [`StepContext`]: the parts that all steps of a run share, and [`StepReport`]: the outcome of a step.

use grpo_lambda::methods::Method;
use grpo_lambda::metrics::Metrics;
use grpo_lambda_decoder::drift::Drift;
use grpo_lambda_decoder::optim::StepOutcome;

use super::engine::WeightFollower;
use super::observer::Observer;
use super::reward_function::RewardFunction;
use super::settings::StepSettings;

/// The parts that all steps of a run share. The state of training is in the engine.
#[derive(Clone, Copy)]
pub struct StepContext<'a> {
    pub settings: &'a StepSettings,
    /// Turns rewards into gradients.
    pub method: &'a dyn Method,
    pub rewards: &'a dyn RewardFunction,
    pub observer: &'a dyn Observer,
    /// Samples in the engine's place.
    pub follower: Option<&'a dyn WeightFollower>,
}

impl<'a> StepContext<'a> {
    /// A context in which the engine samples and nobody watches.
    pub fn new(settings: &'a StepSettings, method: &'a dyn Method, rewards: &'a dyn RewardFunction) -> Self {
        StepContext { settings, method, rewards, observer: &(), follower: None }
    }
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
