//! Divergence: rates that no run survives, policies that have become noise, weights that are no numbers.

use grpo_lambda_decoder::generate::RolloutError;

use super::Run;
use super::error::TrainError;
use crate::config::Config;
use crate::config::schedule::Schedule;
use crate::eval::{EvalError, Evaluation};
use crate::step::PolicyError;

/// Learning rates of AdamW outside this range are asked about: it moves a weight by about the rate at every step, whatever the gradient's
/// size, and weights are of the order of 0.02 to 1.
const USUAL: std::ops::RangeInclusive<f64> = 1e-9..=0.1;

/// A policy this close to the uniform one, as a share of `ln V`, says nothing.
const UNIFORM: f64 = 0.9;
/// One that began below this share has lost what it knew.
const KNEW: f64 = 0.8;
/// A mean entropy, in nats, below which a policy says one and the same.
const FROZEN: f64 = 1e-3;

/// A warning for every stage whose learning rate is out of the usual range, or is not reached before the stage ends.
pub fn unusual_rates(config: &Config) -> Vec<String> {
    let stages = [("sft", config.sft.learning_rates()), ("rl", config.rl.learning_rates())];
    let unusual = |(stage, schedule): (&str, Schedule)| {
        let rate = schedule.peak;
        let what = match schedule.steps > 0 && !USUAL.contains(&rate) {
            false => return None,
            true if rate > *USUAL.end() => "the run will probably diverge",
            true => "nothing will be learned",
        };
        Some(format!(
            "warning: {stage}.lr = {rate:?}: AdamW moves a weight by about that much at every step, and weights are of the order of 0.02 to 1, so \
             {what}; usual rates are 1e-7 to 1e-2"
        ))
    };
    let unreached = |(stage, Schedule { warmup, steps, .. }): (&str, Schedule)| {
        let share = steps as f64 / warmup as f64;
        (steps > 0 && warmup > steps).then(|| {
            format!(
                "warning: {stage}.warmup = {warmup}, longer than {stage}.steps = {steps}: the learning rate ends at {share:.2} of {stage}.lr; \
                 lower {stage}.warmup"
            )
        })
    };
    stages.into_iter().filter_map(unusual).chain(stages.into_iter().filter_map(unreached)).collect()
}

/// The line about a finished run whose policy has diverged; `ln_v` is the entropy of the uniform policy.
pub fn diverged(
    config: &Config,
    entropies: Option<[f64; 2]>,
    ln_v: f64,
    [before, after]: [&Evaluation; 2],
) -> Option<String> {
    let [first, last] = entropies?;
    let rate = config.rl.lr;
    let fell = match (before.interval(), after.interval()) {
        (Some(before), Some(after)) => after.high < before.low,
        _ => false,
    };
    let noise = last >= UNIFORM * ln_v && first < KNEW * ln_v;
    let thrown = rate > *USUAL.end() && (fell || last < FROZEN || last >= UNIFORM * ln_v);
    (noise || thrown).then(|| {
        format!(
            "RL diverged: the mean entropy of a token went from {first:.3} to {last:.3} nats (the uniform policy has ln V = {ln_v:.3}), held-out \
             accuracy from {:.3} to {:.3}; lower rl.lr = {rate:?}",
            before.accuracy(),
            after.accuracy()
        )
    })
}

impl Run<'_> {
    /// The warning about a policy that has become noise, from which nothing can be learned.
    pub(super) fn noise(&self) -> Option<String> {
        let [first, last] = self.state.entropies?;
        let ln_v = (self.session.shape.vocab_size as f64).ln();
        (last >= UNIFORM * ln_v && first < KNEW * ln_v).then(|| {
            format!(
                "warning: the policy is noise: the mean entropy of a token is {last:.3} nats, and the uniform policy has ln V = {ln_v:.3}; training \
                 has diverged, so lower rl.lr = {:?}",
                self.session.config.rl.lr
            )
        })
    }

    /// An error as divergence, if the scores after some training are no numbers.
    pub(super) fn explained(&self, error: TrainError) -> TrainError {
        let (when, scores) = match &error {
            TrainError::Rl { step, source: PolicyError::Rollout(e) } => (format!("RL step {step}"), e),
            TrainError::Eval(EvalError::Rollout(e)) => ("evaluation".to_owned(), e),
            _ => return error,
        };
        if !matches!(scores, RolloutError::Scores { .. }) || self.state.done() == 0 {
            return error;
        }
        let config = &self.session.config;
        let (key, rate) = match self.state.rl_done {
            0 => ("sft.lr", config.sft.lr),
            _ => ("rl.lr", config.rl.lr),
        };
        TrainError::Diverged { when, key, rate, scores: scores.to_string() }
    }
}
