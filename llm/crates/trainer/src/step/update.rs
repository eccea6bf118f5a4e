//! [`StepContext::step`]: from a [`Rollout`] to moved weights.

use grpo_lambda::learner;

use super::engine::Engine;
use super::error::PolicyError;
use super::policy::LlmPolicy;
use super::rollout::Rollout;
use super::trainer::{StepContext, StepReport};

impl StepContext<'_> {
    /// Moves the weights on a rollout: credit once, then as many gradient steps as the settings say.
    pub fn step(
        &self,
        engine: &mut dyn Engine,
        rollout: &Rollout,
        rate: f64,
    ) -> Result<StepReport, PolicyError> {
        let mut policy = LlmPolicy::new(engine, *self, rollout, rate);
        let (prompts, groups) = (&rollout.prompts, &rollout.groups);
        let metrics =
            learner::update(&mut policy, self.method, prompts, groups, self.settings.inner_updates)?;
        Ok(policy.report(metrics))
    }
}
