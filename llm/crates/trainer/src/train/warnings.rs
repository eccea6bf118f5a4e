//! What a run says, and counts, about steps that move nothing.

use grpo_lambda::group::Group;
use grpo_lambda::methods;
use grpo_lambda_decoder::optim::StepOutcome;

use super::Run;
use super::error::TrainError;
use super::metrics::RewardMetrics;
use crate::step::Rollout;

/// Consecutive steps without a learning signal before a warning.
const NO_SIGNAL_STEPS: u64 = 5;

impl Run<'_> {
    /// Tells of a step of the optimiser that was skipped; too many of them in a row stop the run.
    pub(super) fn note_update(&mut self, step: u64, update: &StepOutcome) -> Result<(), TrainError> {
        let StepOutcome::Skipped { parameter, not_finite } = update else {
            self.state.skipped_in_a_row = 0;
            return Ok(());
        };
        self.state.skipped_in_a_row += 1;
        let count = self.state.skipped_in_a_row;
        self.say(&format!(
            "step {step}: {not_finite} numbers of the gradient of `{parameter}` are NaN or infinite; step skipped ({count} in a row)"
        ));
        if count >= self.config.rl.max_nan_steps {
            return Err(TrainError::NotFinite { step, count, parameter: parameter.clone() });
        }
        Ok(())
    }

    /// The components of the reward in a step; one that is stuck is told of once.
    pub(super) fn note_rewards(&mut self, rollout: &Rollout) -> RewardMetrics {
        let reward = &self.config.reward;
        let earned = rollout.rewards.iter().flatten();
        for (i, component) in reward.active() {
            let values = earned.clone().map(|e| e.components[i]);
            if let Some(stuck) = self.state.stuck.observe(component.name, values, reward.stuck_steps) {
                self.say(&stuck.to_string());
            }
        }
        let stuck = self.state.stuck.stuck(reward.stuck_steps);
        RewardMetrics::new(reward.active(), earned, stuck as u64)
    }

    /// Warns once when no group has taught anything for several steps.
    pub(super) fn note_zero_variance(&mut self, batch: &[Group]) {
        let metrics = methods::batch_metrics(batch);
        // With a critic or a batch-wide baseline, groups with equal rewards have a gradient, too.
        let has_signal =
            || self.configured.method.credit(batch).iter().any(|c| c.advantages.iter().any(|a| *a != 0.0));
        let no_signal = metrics.zero_variance_groups == metrics.groups && !has_signal();
        self.state.no_signal_in_a_row = if no_signal { self.state.no_signal_in_a_row + 1 } else { 0 };
        if self.state.no_signal_in_a_row == NO_SIGNAL_STEPS && !self.state.no_signal_warned {
            self.state.no_signal_warned = true;
            if let Some(line) = self.noise() {
                self.say(&line);
                return;
            }
            self.say(&format!(
                "for {NO_SIGNAL_STEPS} steps every group's rewards were equal, so nothing was learned: the task may be too hard or too \
                 easy for this model, the grader may not find its answers (see samples.jsonl), or responses are cut off before them"
            ));
        }
    }
}
