//! Held-out accuracy during a run, and the summary of a finished one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use grpo_lambda_decoder::generate::SamplingParams;
use grpo_lambda_stats::Interval;
use serde::{Deserialize, Serialize};

use super::error::{Result, TrainError};
use super::metrics::StepMetrics;
use super::{Run, divergence};
use crate::config::Config;
use crate::eval::answers::{self, Moment};
use crate::eval::{self, Evaluation};
use crate::input::task::Split;
use crate::run::Best;
use crate::run::progress::SharedProgress;
use crate::run::stop;
use crate::step::engine::Engine;

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
    /// Held-out problems with a gradable response after RL.
    pub n: u64,
    /// Held-out problems with a gradable response before RL.
    pub n_before: u64,
    /// The line about a run whose policy diverged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverged: Option<String>,
    /// The best evaluation, if `checkpoint.best` keeps its checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
    /// True if RL stopped before its last step, because evaluations became no better.
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
    /// Writes the row and the scalars of an evaluation after the RL steps done so far.
    pub(super) fn record_evaluation(&mut self, evaluation: &Evaluation) -> Result<()> {
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

    /// True if an evaluation is the best so far; too many in a row that are not end the run.
    pub(super) fn note_best(&mut self, evaluation: &Evaluation) -> bool {
        let accuracy = evaluation.accuracy();
        if accuracy.is_finite() && self.state.best.is_none_or(|best| accuracy > best.accuracy) {
            self.state.best = Some(Best { step: self.state.done(), accuracy });
            self.state.evaluations_since_best = 0;
            return true;
        }
        self.state.evaluations_since_best += 1;
        let patience = self.session.config.eval.patience;
        if patience > 0 && self.state.evaluations_since_best >= patience && self.state.rl_done > 0 {
            self.state.stopped_early = true;
            self.say(&format!(
                "stopped early after RL step {}: {patience} evaluations in a row were no better than the best (eval.patience = {patience})",
                self.state.rl_done
            ));
        }
        false
    }

    /// Measures the held-out problems, and keeps the answers to them.
    pub(super) fn evaluate(&mut self, engine: &dyn Engine) -> Result<Evaluation> {
        let session = self.session;
        let Config { seed, rl, eval, memory, .. } = &session.config;
        let sampling = SamplingParams::new(rl.max_new_tokens, eval.temperature);
        // The problems are distinct, so that no answer counts twice.
        let problems = session.problems.distinct(Split::Test, eval.n).map_err(TrainError::Problem)?;
        stop::begin("the evaluation".to_owned(), Some(self.evaluated).filter(|time| !time.is_zero()));
        let clock = Instant::now();
        let progress = SharedProgress::new("evaluation", 0, problems.len() as u64);
        let slots = eval::eval_slots(memory.slots);
        let watch = |done: usize, under_way| progress.lock().evaluated(done as u64, 1, under_way);
        let stops = &session.rewards.stops;
        let done =
            eval::evaluate(&session.sampler(engine), stops, (&problems, *seed), (sampling, slots), &watch)
                .map_err(|source| self.explained(TrainError::Eval(source)))?;
        progress.finish();
        self.evaluated = clock.elapsed();
        let step = self.state.rl_done;
        let kept = answers::to_lines(step, &problems, &done);
        let moment = if step == 0 { Moment::Start } else { Moment::Latest };
        self.dir.replace(moment.file(), kept.as_bytes())?;
        Ok(Evaluation::counted(&done))
    }

    /// Evaluates the final policy, and writes the summary.
    pub(super) fn finish(&mut self, engine: &dyn Engine, checkpoint: &Path) -> Result<RunSummary> {
        let session = self.session;
        let config = &session.config;
        let after = match self.state.before {
            Some(before) if config.rl.steps == 0 => before, // an evaluation of the same weights
            _ => self.evaluate(engine)?,
        };
        if config.rl.steps > 0 {
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
        let ln_v = (session.shape.vocab_size as f64).ln();
        let diverged = divergence::diverged(config, self.state.entropies, ln_v, [&before, &after]);
        let ends = |e: &Evaluation| e.interval().map_or([f64::NAN; 2], |i| [i.low, i.high]);
        let summary = RunSummary {
            method: config.configured().spec.title.to_owned(),
            settings: config
                .configured()
                .settings
                .entries()
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect(),
            seed: config.seed,
            accuracy_before: before.accuracy(),
            accuracy_before_interval: ends(&before),
            length_before: before.mean_length,
            accuracy_after: after.accuracy(),
            accuracy_after_interval: ends(&after),
            n: after.n,
            n_before: before.n,
            diverged,
            parameters: self.parameters(),
            best: self.dir.best().filter(|_| config.checkpoint.best),
            stopped_early: self.state.stopped_early,
            steps: [config.sft.steps, self.state.rl_done],
            seconds: self.started.elapsed().as_secs_f64(),
            checkpoint: checkpoint.to_owned(),
        };
        self.dir.finish(&summary)?;
        Ok(summary)
    }

    /// The last evaluation may be the best; its checkpoint is there already.
    fn note_final_best(&mut self, after: &Evaluation, checkpoint: &Path) -> Result<()> {
        let accuracy = after.accuracy();
        if self.state.best.is_none_or(|best| accuracy > best.accuracy) && accuracy.is_finite() {
            let best = Best { step: self.state.done(), accuracy };
            self.state.best = Some(best);
            if self.session.config.checkpoint.best {
                debug_assert!(checkpoint.exists(), "the last checkpoint");
                self.dir.settle(Some(best))?;
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
