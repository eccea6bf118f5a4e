//! The rollout of a step of reinforcement learning.

use grpo_lambda::advantage::all_equal;
use grpo_lambda::group::Group;

use super::Run;
use super::error::TrainError;
use crate::input::tokens::ModelTokenizer;
use crate::problems::{Problems, Stage};
use crate::reward::RewardBreakdown;
use crate::step::engine::Engine;
use crate::step::{Rollout, Trainer, TrainingPrompt};

/// Rollouts sampled at most for one step of dynamic sampling.
const MAX_SAMPLING_ROUNDS: u64 = 4;

impl Run<'_> {
    /// Samples the responses of a step. With dynamic sampling, groups whose answers are all right or all wrong are replaced, a few times at
    /// most.
    pub(super) fn rollout<E: Engine>(
        &self,
        engine: &mut E,
        trainer: Trainer<'_>,
        step: u64,
    ) -> Result<Rollout, TrainError> {
        let rl = &self.config.rl;
        let (wanted, rounds) =
            (rl.prompts_per_step, if rl.dynamic_sampling { MAX_SAMPLING_ROUNDS } else { 1 });
        let mut rollout = Rollout { step, on_policy: true, ..Rollout::default() };
        let (mut kept, mut agreeing) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let first = (step * MAX_SAMPLING_ROUNDS + round) * wanted as u64;
            let prompt = |number| training_prompt(&self.problems, &self.tokens, number);
            let prompts = (first..first + wanted as u64).map(prompt).collect::<Result<_, _>>()?;
            let fresh = trainer
                .sample(engine, prompts, rl.group_size, step)
                .map_err(|source| self.step_failed(step, source))?;
            rollout.evidence_cost += fresh.evidence_cost;
            for answered in answered(fresh) {
                // Only correctness decides, not the other components of the reward.
                let known: Vec<f64> = answered.2.iter().filter_map(RewardBreakdown::accuracy).collect();
                let agrees = rl.dynamic_sampling && all_equal(&known);
                if agrees { &mut agreeing } else { &mut kept }.push(answered);
            }
            if kept.len() >= wanted {
                break;
            }
        }
        for (prompt, group, rewards) in fill_up(kept, agreeing, wanted) {
            rollout.prompts.push(prompt);
            rollout.groups.push(group);
            rollout.rewards.push(rewards);
        }
        Ok(rollout)
    }
}

/// The prompt of RL of this number.
///
/// # Errors
/// When its problem cannot be read or encoded.
pub fn training_prompt(
    problems: &Problems,
    tokens: &ModelTokenizer,
    number: u64,
) -> Result<TrainingPrompt, TrainError> {
    let problem = problems.problem(Stage::Rl, number).map_err(TrainError::Problem)?;
    Ok(TrainingPrompt { tokens: problem.encode(tokens)?.ids().to_vec(), gold: problem.gold, number })
}

/// A prompt, its group and what the responses earned.
type Answered = (TrainingPrompt, Group, Vec<RewardBreakdown>);

/// A rollout prompt by prompt.
fn answered(rollout: Rollout) -> impl Iterator<Item = Answered> {
    let Rollout { prompts, groups, rewards, .. } = rollout;
    prompts.into_iter().zip(groups).zip(rewards).map(|((prompt, group), rewards)| (prompt, group, rewards))
}

/// The first `wanted` of `kept`, filled up from `passed_over` where they are too few.
fn fill_up<T>(kept: Vec<T>, passed_over: Vec<T>, wanted: usize) -> Vec<T> {
    kept.into_iter().chain(passed_over).take(wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_agree_only_make_up_the_number() {
        assert_eq!(fill_up(vec![1, 2, 3], vec![10, 11], 2), [1, 2]);
        assert_eq!(fill_up(vec![1], vec![10, 11, 12], 3), [1, 10, 11]);
        assert_eq!(fill_up(vec![], vec![10], 1), [10]);
    }
}
