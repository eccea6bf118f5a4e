//! [`StepContext::step`]: from a [`Rollout`] to moved weights, by way of the [`Policy`] trait.

use std::cell::Cell;
use std::ops::Range;

use grpo_lambda::group::Group;
use grpo_lambda::learner::{self, Policy, Scored};
use grpo_lambda::methods::{Credit, Method};
use grpo_lambda::metrics::Metrics;
use grpo_lambda_decoder::mismatch::Mismatch;
use grpo_lambda_decoder::model::{Cotangents, ForwardOptions};
use grpo_lambda_decoder::optim::StepOutcome;

use super::critic::{CriticReport, Targets};
use super::engine::{Engine, Tape};
use super::sample::Rollout;
use super::tree::OnTree;
use super::{Phase, PolicyError, Result, StepContext, TrainingPrompt, ids, micro_batch, observed};

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// Metrics of the method, of the last inner update.
    pub metrics: Metrics,
    /// The optimiser's outcome of each inner update.
    pub updates: Vec<StepOutcome>,
    /// The distance between sampler and trainer on the rollout, while both used the same weights.
    pub mismatch: Mismatch,
    /// The learning rate.
    pub rate: f64,
    /// The outcome of the critic's steps, if there is one.
    pub critic: Option<CriticReport>,
}

impl StepReport {
    /// The first inner update that was skipped, or else the last: a skipped one is not hidden by those after it.
    pub fn update(&self) -> Option<&StepOutcome> {
        let skipped = self.updates.iter().find(|u| matches!(u, StepOutcome::Skipped { .. }));
        skipped.or(self.updates.last())
    }
}

impl StepContext<'_> {
    /// Moves the weights on a rollout: credit once, then as many gradient steps as the settings say. Then the critic learns, if there is one.
    pub fn step(&self, engine: &mut dyn Engine, rollout: &Rollout, rate: f64) -> Result<StepReport> {
        let mut policy = LlmPolicy::new(&mut *engine, *self, rollout, rate);
        let (prompts, groups) = (&rollout.prompts, &rollout.groups);
        let on_tree = OnTree { method: self.method, segments: &rollout.segments };
        let method: &dyn Method = if rollout.segments.is_empty() { self.method } else { &on_tree };
        let metrics = learner::update(&mut policy, method, prompts, groups, self.settings.inner_updates)?;
        let report = policy.report(metrics);
        let (Some(settings), Some(critic)) = (&self.settings.critic, engine.critic_mut()) else {
            return Ok(report);
        };
        let (rate, memory) = (settings.rates.rate(rollout.step), self.settings.memory);
        let passes = micro_batch::Batch::new(&ids(prompts), groups).passes(memory.micro_batch_tokens);
        let targets = Targets::all(groups, settings);
        let learn = || critic.learn(&passes, &targets, (settings, memory.recompute_layers), rate);
        Ok(StepReport { critic: Some(observed(self.observer, Phase::Critic, learn)?), ..report })
    }
}

/// An engine during the update on one rollout.
pub struct LlmPolicy<'a> {
    engine: &'a mut dyn Engine,
    context: StepContext<'a>,
    rate: f64,
    /// Coefficient of the entropy bonus.
    entropy: f64,
    /// True while the weights are those of the sampler. Log-probabilities must then agree with the sampler's: bit for bit if the engine is
    /// exact, and else up to rounding, when ratios are taken against the trainer's own.
    on_policy: bool,
    mismatch: Cell<Mismatch>,
    updates: Vec<StepOutcome>,
}

impl<'a> LlmPolicy<'a> {
    /// The policy to be updated on `rollout` with this learning rate.
    pub fn new(engine: &'a mut dyn Engine, context: StepContext<'a>, rollout: &Rollout, rate: f64) -> Self {
        let (on_policy, entropy) = (rollout.on_policy, rollout.entropy_coef);
        LlmPolicy {
            engine,
            context,
            rate,
            entropy,
            on_policy,
            mismatch: Cell::default(),
            updates: Vec::new(),
        }
    }

    /// True if sampler and trainer give a token the same bits under the same weights.
    fn is_exact(&self) -> bool {
        self.context.follower.is_none() && self.engine.exact()
    }

    /// The report of all updates so far.
    pub fn report(self, metrics: Metrics) -> StepReport {
        let (mismatch, rate) = (self.mismatch.get(), self.rate);
        StepReport { metrics, updates: self.updates, mismatch, rate, critic: None }
    }

    /// Compares the log-probabilities that sampler and trainer give the responses `part`.
    fn compare(&self, batch: &[Group], part: Range<usize>, trained: &[Vec<f64>]) -> Result<()> {
        let responses = || micro_batch::flat(batch).skip(part.start).take(part.len()).map(|(_, r)| r);
        if self.is_exact() {
            for (i, (response, logps)) in responses().zip(trained).enumerate() {
                let differs = |(a, b): (&f64, &f64)| a != b && !(a.is_nan() && b.is_nan());
                if let Some(token) = response.old_logps.iter().zip(logps).position(differs) {
                    let (sampled, trained) = (response.old_logps[token], logps[token]);
                    return Err(PolicyError::Mismatch { response: part.start + i, token, sampled, trained });
                }
            }
        }
        let mut mismatch = self.mismatch.get();
        // Credit that reads the policy's own log-probabilities scores a batch twice; the second time these are in the sampler's place.
        if mismatch.tokens() >= micro_batch::flat(batch).map(|(_, r)| r.len() as u64).sum() {
            return Ok(());
        }
        responses().zip(trained).for_each(|(response, logps)| mismatch.add(&response.old_logps, logps));
        self.mismatch.set(mismatch);
        Ok(())
    }

    fn propagate(&mut self, tape: Tape, cotangents: Cotangents<'_>) -> Result<()> {
        let backward = || Ok(self.engine.backward(tape, cotangents)?);
        observed(self.context.observer, Phase::Backward, backward)
    }
}

impl Policy for LlmPolicy<'_> {
    type Prompt = TrainingPrompt;
    type Tape = Tape;
    type Error = PolicyError;

    fn parts(&self, prompts: &[TrainingPrompt], batch: &[Group]) -> Vec<Range<usize>> {
        let budget = self.context.settings.memory.micro_batch_tokens;
        micro_batch::Batch::new(&ids(prompts), batch).parts(budget)
    }

    /// The rounding of an inexact engine's sampler is train/inference mismatch, which is reported and limited, and no step of the policy.
    fn recomputes_old_logps(&self) -> bool {
        self.on_policy && !self.is_exact()
    }

    fn log_probs(
        &self,
        prompts: &[TrainingPrompt],
        batch: &[Group],
        part: Range<usize>,
    ) -> Result<Scored<Tape>> {
        let options = ForwardOptions { entropy: self.entropy != 0.0, ..self.context.settings.options() };
        let (scores, tape) = observed(self.context.observer, Phase::Forward, || {
            let rows = micro_batch::Batch::new(&ids(prompts), batch).rows(part.clone());
            Ok::<_, PolicyError>(self.engine.forward(&rows, options)?)
        })?;
        if self.on_policy {
            self.compare(batch, part, &scores.logps)?;
        }
        Ok((scores.logps, tape))
    }

    fn backward(&mut self, tape: Tape, dlogps: &[Vec<f64>]) -> Result<()> {
        self.propagate(tape, dlogps.into())
    }

    /// The bonus is reduced as the loss is: `L = sum_t w_t (l_t - c H_t)`.
    fn backward_credited(&mut self, tape: Tape, dlogps: &[Vec<f64>], credits: &[Credit]) -> Result<()> {
        if self.entropy == 0.0 {
            return self.propagate(tape, dlogps.into());
        }
        let slopes = |credit: &Credit| credit.weights.iter().map(|w| -self.entropy * w).collect();
        let dentropies: Vec<Vec<f64>> = credits.iter().map(slopes).collect();
        self.propagate(tape, Cotangents { logps: dlogps, entropies: Some(&dentropies) })
    }

    fn step(&mut self) -> Result<()> {
        let (mismatch, limit) = (self.mismatch.get(), self.context.settings.max_logp_error);
        let rounding = PolicyError::Rounding { mean: mismatch.mean(), max: mismatch.max(), limit };
        if mismatch.mean() > limit {
            return Err(rounding);
        }
        let complete = || {
            self.engine.complete();
            Ok::<_, PolicyError>(())
        };
        observed(self.context.observer, Phase::Prompts, complete)?;
        let step = || Ok::<_, PolicyError>(self.engine.step(self.rate)?);
        let update = observed(self.context.observer, Phase::Optimiser, step)?;
        if let StepOutcome::Applied { .. } = update {
            // NaN log-probabilities give a NaN gradient, and the step is skipped. A step that was applied nevertheless is a bug.
            if mismatch.mean().is_nan() {
                return Err(rounding);
            }
            self.on_policy = false;
        }
        self.updates.push(update);
        Ok(())
    }
}
