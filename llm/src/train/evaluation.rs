//! Held-out accuracy during a run.

use grpo_lambda_decoder::rollout::{Sampler, SamplingParams};

use super::Run;
use super::error::TrainError;
use crate::config::Config;
use crate::eval::{self, Evaluation};
use crate::input::task::Split;
use crate::run::progress::Progress;

impl Run<'_> {
    pub(super) fn evaluate(&mut self, model: &dyn Sampler) -> Result<Evaluation, TrainError> {
        let Config { seed, rl, eval, .. } = self.config;
        let sampling = SamplingParams {
            max_new_tokens: rl.max_new_tokens,
            min_new_tokens: 0,
            temperature: eval.temperature,
        };
        // The problems are distinct, so that no answer counts twice.
        let problems = self.problems.distinct(Split::Test, eval.n).map_err(TrainError::Problem)?;
        let mut progress = Progress::new("evaluation", 0, problems.len() as u64);
        let mut watch = |done: usize| progress.step(done as u64, &[], 0);
        let done = eval::evaluate(model, &self.tokens, (&problems, *seed), sampling, &mut watch)
            .map_err(|source| self.evaluation_failed(source))?;
        progress.finish();
        Ok(done)
    }
}
