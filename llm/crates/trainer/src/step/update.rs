//! [`StepContext::step`]: from a [`Rollout`] to moved weights, by way of the [`Policy`] trait.

use std::cell::Cell;
use std::ops::Range;

use grpo_lambda::group::{Group, Response};
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
        let (prompts, groups) = (&rollout.prompts, &rollout.groups);
        let on_tree = OnTree { method: self.method, segments: &rollout.segments };
        let method: &dyn Method = if rollout.segments.is_empty() { self.method } else { &on_tree };
        let mut policy = LlmPolicy::new(&mut *engine, *self, rollout, rate);
        if self.settings.leaves_still {
            policy.leave_still(method, prompts, groups);
        }
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
    /// The responses without a gradient as long as the policy is exactly the sampler's, in flat order; empty where none is known.
    still: Vec<bool>,
    mismatch: Cell<Mismatch>,
    updates: Vec<StepOutcome>,
}

/// The tape of a micro-batch.
#[derive(Debug)]
pub struct PartTape {
    /// The responses that were computed, counted in the micro-batch.
    computed: Vec<usize>,
    /// Nothing where that is none.
    tape: Option<Tape>,
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
            still: Vec::new(),
            mismatch: Cell::default(),
            updates: Vec::new(),
        }
    }

    /// Computes no response of `batch` to which `method` gives no gradient, such as those of a group with equal rewards: an exact engine's
    /// log-probabilities would be the sampler's, and its gradient would grow by zeros. Every bit of the step stays, and every token with a
    /// gradient is compared with the sampler's.
    ///
    /// Prefixes add to a gradient in the order in which responses first continue them. A group that shares its prefix with another keeps its place.
    fn leave_still(&mut self, method: &dyn Method, prompts: &[TrainingPrompt], batch: &[Group]) {
        if !self.is_exact() {
            return;
        }
        let prefixes: Vec<&[u32]> =
            ids(prompts).into_iter().map(|prompt| micro_batch::split_prompt(prompt).0).collect();
        let is_alone: Vec<bool> =
            prefixes.iter().map(|own| prefixes.iter().filter(|p| *p == own).count() == 1).collect();
        let entropy = self.entropy;
        let is_still = |((group, response), credit): ((usize, &Response), Credit)| {
            let loss = method.loss(response, &credit, &response.old_logps);
            is_alone[group] && is_zero(&loss.dlogps) && (entropy == 0.0 || is_zero(&credit.weights))
        };
        self.still = micro_batch::flat(batch).zip(method.credit(batch)).map(is_still).collect();
    }

    /// True if this response has to be computed.
    fn computes(&self, i: usize) -> bool {
        !(self.on_policy && self.still.get(i).is_some_and(|still| *still))
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

    /// Compares the log-probabilities that sampler and trainer give the responses at these places.
    fn compare(&self, batch: &[Group], places: &[usize], trained: &[Vec<f64>]) -> Result<()> {
        let all: Vec<&Response> = micro_batch::flat(batch).map(|(_, r)| r).collect();
        let pairs = || places.iter().map(|&i| (i, all[i])).zip(trained);
        if self.is_exact() {
            for ((response, sampled), logps) in pairs() {
                let differs = |(a, b): (&f64, &f64)| a != b && !(a.is_nan() && b.is_nan());
                if let Some(token) = sampled.old_logps.iter().zip(logps).position(differs) {
                    let (sampled, trained) = (sampled.old_logps[token], logps[token]);
                    return Err(PolicyError::Mismatch { response, token, sampled, trained });
                }
            }
        }
        let mut mismatch = self.mismatch.get();
        // Credit that reads the policy's own log-probabilities scores a batch twice; the second time these are in the sampler's place.
        if mismatch.tokens() >= all.iter().map(|r| r.len() as u64).sum() {
            return Ok(());
        }
        pairs().for_each(|((_, response), logps)| mismatch.add(&response.old_logps, logps));
        self.mismatch.set(mismatch);
        Ok(())
    }

    /// Adds the gradient of a micro-batch.
    fn propagate(
        &mut self,
        part: PartTape,
        logps: &[Vec<f64>],
        entropies: Option<&[Vec<f64>]>,
    ) -> Result<()> {
        let left_out = |i: &usize| !part.computed.contains(i);
        let is_known = (0..logps.len()).filter(left_out).all(|i| is_zero(&logps[i]));
        assert!(is_known, "a response was left out that has a gradient");
        let Some(tape) = part.tape else { return Ok(()) };
        let kept = |slopes: &[Vec<f64>]| -> Vec<Vec<f64>> {
            part.computed.iter().map(|&i| slopes[i].clone()).collect()
        };
        let (logps, entropies) = (kept(logps), entropies.map(kept));
        let cotangents = Cotangents { logps: &logps, entropies: entropies.as_deref() };
        let backward = || Ok(self.engine.backward(tape, cotangents)?);
        observed(self.context.observer, Phase::Backward, backward)
    }
}

/// True if all are 0.
fn is_zero(numbers: &[f64]) -> bool {
    numbers.iter().all(|x| *x == 0.0)
}

impl Policy for LlmPolicy<'_> {
    type Prompt = TrainingPrompt;
    type Tape = PartTape;
    type Error = PolicyError;

    fn parts(&self, prompts: &[TrainingPrompt], batch: &[Group]) -> Vec<Range<usize>> {
        let budget = self.context.settings.memory.micro_batch_tokens;
        micro_batch::Batch::new(&ids(prompts), batch).parts_of(budget, |i| self.computes(i))
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
    ) -> Result<Scored<PartTape>> {
        let options = ForwardOptions { entropy: self.entropy != 0.0, ..self.context.settings.options() };
        let mut logps: Vec<Vec<f64>> = micro_batch::flat(batch)
            .skip(part.start)
            .take(part.len())
            .map(|(_, r)| r.old_logps.clone())
            .collect();
        let places: Vec<usize> = part.clone().filter(|&i| self.computes(i)).collect();
        let computed = places.iter().map(|i| i - part.start).collect();
        if places.is_empty() {
            return Ok((logps, PartTape { computed, tape: None }));
        }
        let (scores, tape) = observed(self.context.observer, Phase::Forward, || {
            let rows = micro_batch::Batch::new(&ids(prompts), batch).rows(places.iter().copied());
            Ok::<_, PolicyError>(self.engine.forward(&rows, options)?)
        })?;
        if self.on_policy {
            self.compare(batch, &places, &scores.logps)?;
        }
        for (i, row) in places.iter().zip(scores.logps) {
            logps[i - part.start] = row;
        }
        Ok((logps, PartTape { computed, tape: Some(tape) }))
    }

    fn backward(&mut self, tape: PartTape, dlogps: &[Vec<f64>]) -> Result<()> {
        self.propagate(tape, dlogps, None)
    }

    /// The bonus is reduced as the loss is: `L = sum_t w_t (l_t - c H_t)`.
    fn backward_credited(&mut self, tape: PartTape, dlogps: &[Vec<f64>], credits: &[Credit]) -> Result<()> {
        if self.entropy == 0.0 {
            return self.propagate(tape, dlogps, None);
        }
        let slopes = |credit: &Credit| credit.weights.iter().map(|w| -self.entropy * w).collect();
        let dentropies: Vec<Vec<f64>> = credits.iter().map(slopes).collect();
        self.propagate(tape, dlogps, Some(&dentropies))
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
