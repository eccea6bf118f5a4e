//! The responses that a run keeps for people to read.

use std::collections::BTreeMap;

use super::Run;
use super::error::TrainError;
use crate::step::Rollout;

/// Responses kept of a step.
const KEPT: usize = 2;

impl Run<'_> {
    /// Writes the first responses of a step to `samples.jsonl`.
    pub(super) fn keep_samples(&mut self, step: u64, rollout: &Rollout) -> Result<(), TrainError> {
        let (Some(exercise), Some(group)) = (rollout.prompts.first(), rollout.groups.first()) else {
            return Ok(());
        };
        let names: Vec<_> = self.config.reward.active().map(|(i, c)| (i, c.name)).collect();
        for (response, earned) in group.responses.iter().zip(rollout.rewards.iter().flatten()).take(KEPT) {
            let rewards: BTreeMap<&str, Option<f64>> =
                names.iter().map(|(i, name)| (*name, earned.parts[*i])).collect();
            let sample = serde_json::json!({
                "step": step,
                "prompt": self.tokens.text(&exercise.prompt)?,
                "response": self.tokens.text(&response.tokens)?,
                "reward": response.reward,
                "rewards": rewards,
                "truncated": response.truncated,
            });
            self.dir.sample(&sample)?;
        }
        Ok(())
    }
}
