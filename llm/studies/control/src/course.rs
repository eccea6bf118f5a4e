//! [`Course`]: a run that ends when its tokens are spent, with exams on the way.

use std::time::Instant;

use grpo_lambda_decoder::optim::StepOutcome;
use grpo_lambda_stats::mean;
use grpo_lambda_trainer::config::schedule::{Schedule, ScheduleShape};
use grpo_lambda_trainer::step::engine::CpuEngine;
use grpo_lambda_trainer::step::{Rollout, StepContext, TrainingPrompt};
use grpo_lambda_trials::{End, Point, Trial};

use super::lab::Result;

/// A method on a task, from a start up to a budget of sampled tokens.
pub(crate) struct Course<'a> {
    pub(crate) context: StepContext<'a>,
    /// Responses to a prompt.
    pub(crate) group: usize,
    /// Tokens sampled for training, and those between exams.
    pub(crate) budget: f64,
    pub(crate) every: u64,
    /// The way in which the rate falls while the budget is spent, after so many steps of warm-up.
    pub(crate) shape: ScheduleShape,
    pub(crate) warmup: u64,
    /// The prompts of a step.
    pub(crate) prompts: &'a dyn Fn(u64) -> Result<Vec<TrainingPrompt>>,
    /// Adds to a rollout what the task tells the method besides rewards.
    pub(crate) credit: &'a dyn Fn(&CpuEngine, &mut Rollout) -> Result<()>,
    /// The held-out accuracy after so many steps.
    pub(crate) exam: &'a dyn Fn(&mut CpuEngine, u64) -> Result<f64>,
}

impl Course<'_> {
    /// Trains an engine at the rate of `trial`, which names the run, and fills in its numbers. `watch` sees the steps
    /// and the weights after every exam.
    pub(crate) fn run(
        &self,
        engine: &mut CpuEngine,
        mut trial: Trial,
        mut watch: impl FnMut(u64, &CpuEngine),
    ) -> Result<Trial> {
        let began = Instant::now();
        let fall = Schedule { peak: trial.rate, warmup: 0, steps: self.budget as u64, shape: self.shape };
        let point = |tokens: u64, accuracy| Point { tokens: tokens as f64, accuracy };
        trial.curve.0.push(point(0, (self.exam)(engine, 0)?));
        let mut explained = Vec::new();
        while (trial.tokens as f64) < self.budget {
            let prompts = (self.prompts)(trial.steps)?;
            let mut rollout = self.context.sample(engine, prompts, self.group, trial.steps)?;
            (self.credit)(engine, &mut rollout)?;
            let rate = fall.rate(trial.tokens) * warm(trial.steps, self.warmup);
            let report = self.context.step(engine, &rollout, rate)?;
            let responses = || rollout.groups.iter().flat_map(|g| &g.responses);
            trial.length = responses().map(|r| r.len()).sum::<usize>() as f64 / responses().count() as f64;
            let before = trial.tokens;
            trial.tokens += rollout.sampled_tokens as u64;
            let is_applied = |update: &StepOutcome| matches!(update, StepOutcome::Applied { .. });
            let mut of_critic = report.critic.iter().flat_map(|critic| &critic.updates);
            if !(report.update().is_some_and(is_applied) && of_critic.all(is_applied)) {
                trial.ended = End::NotFinite;
                break;
            }
            trial.steps += 1;
            explained.extend(report.critic.and_then(|critic| critic.explained));
            if trial.tokens / self.every > before / self.every || trial.tokens as f64 >= self.budget {
                trial.curve.0.push(point(trial.tokens, (self.exam)(engine, trial.steps)?));
                trial.explained.0.extend(mean(&explained).map(|share| point(trial.tokens, share)));
                explained.clear();
                watch(trial.steps, engine);
            }
        }
        Ok(Trial { seconds: began.elapsed().as_secs_f64(), ..trial })
    }
}

/// The factor of the rate in a warm-up of so many steps.
pub(crate) fn warm(step: u64, warmup: u64) -> f64 {
    ((step + 1) as f64 / warmup.max(1) as f64).min(1.0)
}
