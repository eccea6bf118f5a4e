//! Summary of a finished run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use grpo_lambda::stats::Interval;
use grpo_lambda_decoder::rollout::Sampler;
use serde::{Deserialize, Serialize};

use super::error::TrainError;
use super::{Run, divergence};
use crate::eval::Evaluation;

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
            steps: [self.config.sft.steps, self.config.rl.steps],
            seconds: self.started.elapsed().as_secs_f64(),
            checkpoint: checkpoint.to_owned(),
        };
        self.dir.finish(&summary)?;
        Ok(summary)
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
