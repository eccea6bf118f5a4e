//! The responses that a run keeps for people to read.

use std::collections::BTreeMap;

use grpo_lambda_grade::Prediction;

use super::Run;
use super::error::TrainError;
use crate::input::stops::Stops;
use crate::step::Rollout;

/// Responses kept of a step.
const SAMPLES_PER_STEP: usize = 2;

impl Run<'_> {
    /// Writes the first responses of a step to `samples.jsonl`.
    pub(super) fn write_samples(&mut self, step: u64, rollout: &Rollout) -> Result<(), TrainError> {
        let (Some(prompt), Some(group)) = (rollout.prompts.first(), rollout.groups.first()) else {
            return Ok(());
        };
        let names: Vec<_> = self.config.reward.active().map(|(i, c)| (i, c.name)).collect();
        for (response, breakdown) in
            group.responses.iter().zip(rollout.rewards.iter().flatten()).take(SAMPLES_PER_STEP)
        {
            let rewards: BTreeMap<&str, Option<f64>> =
                names.iter().map(|(i, name)| (*name, breakdown.components[*i])).collect();
            let text = Stops::new(&self.tokens, self.problems.stop()).text(&response.tokens)?;
            let answer = Prediction::extract(&text, self.problems.extraction());
            let sample = serde_json::json!({
                "step": step,
                "prompt": self.tokens.text(&prompt.tokens)?,
                "response": text,
                "gold": prompt.gold.to_string(),
                "answer": answer.answer(),
                "accuracy": breakdown.accuracy(),
                "reward": response.reward,
                "rewards": rewards,
                "truncated": response.truncated,
            });
            self.dir.sample(&sample)?;
        }
        Ok(())
    }
}
