//! Held-out accuracy during a run.

use grpo_lambda_decoder::generate::{Sampler, SamplingParams};

use super::Run;
use super::error::TrainError;
use super::metrics::StepMetrics;
use crate::config::Config;
use crate::eval::{self, Evaluation};
use crate::input::stops::Stops;
use crate::input::task::Split;
use crate::run::Best;
use crate::run::progress::SharedProgress;

impl Run<'_> {
    /// Writes the row and the scalars of an evaluation after the RL steps done so far.
    pub(super) fn record_evaluation(&mut self, evaluation: &Evaluation) -> Result<(), TrainError> {
        let columns: Vec<_> = StepMetrics::default().with_evaluation(evaluation).entries().collect();
        let columns: Vec<_> = columns.into_iter().filter(|(_, x)| x.is_finite()).collect();
        let mut scalars: Vec<(&str, f64)> =
            columns.iter().map(|(name, x)| (name.trim_start_matches("eval_"), *x)).collect();
        scalars.extend([
            ("n", evaluation.n as f64),
            ("ungradable", evaluation.ungradable as f64),
            ("truncated", evaluation.truncated as f64),
            ("length", evaluation.mean_length),
        ]);
        Ok(self.dir.record_evaluation(self.state.rl_done, &columns, &scalars)?)
    }

    /// Whether an evaluation is the best so far; too many in a row that are not end the run.
    pub(super) fn note_best(&mut self, evaluation: &Evaluation) -> bool {
        let accuracy = evaluation.accuracy();
        if accuracy.is_finite() && self.state.best.is_none_or(|best| accuracy > best.accuracy) {
            self.state.best = Some(Best { step: self.state.done(), accuracy });
            self.state.evaluations_since_best = 0;
            return true;
        }
        self.state.evaluations_since_best += 1;
        let patience = self.config.eval.patience;
        if patience > 0 && self.state.evaluations_since_best >= patience && self.state.rl_done > 0 {
            self.state.stopped_early = true;
            self.say(&format!(
                "stopped early after RL step {}: {patience} evaluations in a row were no better than the best (eval.patience = {patience})",
                self.state.rl_done
            ));
        }
        false
    }

    pub(super) fn evaluate(&mut self, model: &dyn Sampler) -> Result<Evaluation, TrainError> {
        let Config { seed, rl, eval, memory, .. } = self.config;
        let sampling = SamplingParams {
            max_new_tokens: rl.max_new_tokens,
            min_new_tokens: 0,
            temperature: eval.temperature,
        };
        // The problems are distinct, so that no answer counts twice.
        let problems = self.problems.distinct(Split::Test, eval.n).map_err(TrainError::Problem)?;
        let progress = SharedProgress::new("evaluation", 0, problems.len() as u64);
        let slots = eval::eval_slots(memory.slots);
        let watch = |done: usize, under_way| progress.lock().evaluated(done as u64, 1, under_way);
        let stops = Stops::new(&self.tokens, self.problems.stop());
        let done = eval::evaluate(model, stops, (&problems, *seed), (sampling, slots), &watch)
            .map_err(|source| self.evaluation_failed(source))?;
        progress.finish();
        Ok(done)
    }
}
