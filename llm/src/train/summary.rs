//! Summary of a finished run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use grpo_lambda::stats::Interval;
use grpo_lambda_decoder::generate::Sampler;
use serde::{Deserialize, Serialize};

use super::error::TrainError;
use super::{Run, divergence};
use crate::eval::Evaluation;
use crate::run::Best;

/// Summary of a finished run.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct RunSummary {
    /// Method with every setting.
    pub method: String,
    pub settings: BTreeMap<String, String>,
    pub seed: u64,
    /// Held-out accuracy after supervised learning, before RL.
    pub accuracy_before: f64,
    /// Its 95 % interval (Wilson).
    pub accuracy_before_interval: [f64; 2],
    /// Mean length of a held-out response before RL, in tokens.
    pub length_before: f64,
    /// Held-out accuracy after RL.
    pub accuracy_after: f64,
    /// Its 95 % interval (Wilson).
    pub accuracy_after_interval: [f64; 2],
    pub n: u64,
    /// What is said of a run whose policy diverged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverged: Option<String>,
    /// The best evaluation, where `checkpoint.best` keeps its checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
    /// Whether RL stopped before its last step, because evaluations became no better.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped_early: bool,
    /// Parameters of the model.
    pub parameters: usize,
    /// Steps of supervised and reinforcement learning.
    pub steps: [u64; 2],
    /// Wall-clock seconds of this process; less than the whole run's when it was resumed.
    pub seconds: f64,
    /// The checkpoint with the final weights.
    pub checkpoint: PathBuf,
}

impl Run<'_> {
    /// Evaluates what the run found, and writes its summary.
    pub(super) fn finish(
        &mut self,
        model: &dyn Sampler,
        checkpoint: &Path,
    ) -> Result<RunSummary, TrainError> {
        let after = match self.state.before {
            Some(before) if self.config.rl.steps == 0 => before, // an evaluation of the same weights
            _ => self.evaluate(model)?,
        };
        if self.config.rl.steps > 0 {
            self.say(&format!("held-out accuracy after RL:  {}", describe_accuracy(&after)));
        }
        if self.state.rl_done > 0 {
            if !self.dir.has_ended() {
                // One that stopped early did so at an evaluation, whose row is there.
                if !self.state.stopped_early {
                    self.record_evaluation(&after)?;
                }
                self.dir.end(self.state.done())?;
            }
            self.note_final_best(&after, checkpoint)?;
        }
        let before = self.state.before.unwrap_or(after);
        let ln_v = (self.shape.vocab_size as f64).ln();
        let diverged = divergence::diverged(self.config, self.state.entropies, ln_v, [&before, &after]);
        let ends = |e: &Evaluation| e.interval().map_or([f64::NAN; 2], |i| [i.low, i.high]);
        let summary = RunSummary {
            method: self.configured.spec.title.to_owned(),
            settings: self.configured.settings.entries().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            seed: self.config.seed,
            accuracy_before: before.accuracy(),
            accuracy_before_interval: ends(&before),
            length_before: before.mean_length,
            accuracy_after: after.accuracy(),
            accuracy_after_interval: ends(&after),
            n: after.n,
            diverged,
            parameters: self.parameters(),
            best: self.state.best.filter(|_| self.config.checkpoint.best),
            stopped_early: self.state.stopped_early,
            steps: [self.config.sft.steps, self.state.rl_done],
            seconds: self.started.elapsed().as_secs_f64(),
            checkpoint: checkpoint.to_owned(),
        };
        self.dir.finish(&summary)?;
        Ok(summary)
    }
}

impl Run<'_> {
    /// The last evaluation may be the best; its checkpoint is there already.
    fn note_final_best(&mut self, after: &Evaluation, checkpoint: &Path) -> Result<(), TrainError> {
        let accuracy = after.accuracy();
        if self.state.best.is_none_or(|best| accuracy > best.accuracy) && accuracy.is_finite() {
            let best = Best { step: self.state.done(), accuracy };
            self.state.best = Some(best);
            if self.config.checkpoint.best {
                debug_assert!(checkpoint.exists(), "the last checkpoint");
                self.dir.set_best(best)?;
            }
        }
        Ok(())
    }
}

/// An accuracy with its interval, for people.
pub(super) fn describe_accuracy(e: &Evaluation) -> String {
    match e.interval() {
        Some(Interval { low, high, .. }) => {
            format!("{:.3} (95 % interval {low:.3} to {high:.3}, {} of {})", e.accuracy(), e.correct, e.n)
        }
        None => "no response could be graded".to_owned(),
    }
}
