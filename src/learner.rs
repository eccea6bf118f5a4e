//! The training step of Algorithms 1 and 2, over any policy.

use std::borrow::Cow;
use std::ops::Range;

use crate::group::{Group, Response};
use crate::method::{Credit, Method, credited_metrics};
use crate::metrics::Metrics;

/// Log-probabilities of every token of some responses, with the tape to differentiate them.
pub type Scored<Tape> = (Vec<Vec<f64>>, Tape);

/// A model that scores responses and can be pushed along a gradient of its log-probabilities.
///
/// A table and a transformer differ only in this trait's implementation. Responses of a batch are counted in flat order,
/// group by group; group `i` answers prompt `i`.
pub trait Policy {
    /// The input that a response answers.
    type Prompt;
    /// The values that [`Policy::log_probs`] keeps for [`Policy::backward`].
    type Tape;
    /// The failure of scoring, of a step or, for [`Samples`], of sampling.
    type Error;

    /// Splits the responses of a batch, in order, into micro-batches: ranges that are scored and differentiated together.
    ///
    /// Memory alone may decide the split: credit is fixed for the whole batch, and shares of the loss add up.
    fn parts(&self, prompts: &[Self::Prompt], batch: &[Group]) -> Vec<Range<usize>> {
        let _ = prompts;
        std::iter::once(0..batch.iter().map(|g| g.responses.len()).sum()).collect()
    }

    /// True if [`Response::old_logps`] are computed again by [`Policy::log_probs`], in the first inner update on a batch.
    ///
    /// They should where that differs from the sampler by rounding: a trace adds up the differences of many tokens, which would then be
    /// clipped as if the policy had moved. Credit is fixed from the sampler's numbers all the same.
    fn recomputes_old_logps(&self) -> bool {
        false
    }

    /// Current `log pi(a_t|s_t)` of every token of the responses `part` of the batch, with the tape to differentiate them.
    ///
    /// # Errors
    /// When scoring fails.
    fn log_probs(
        &self,
        prompts: &[Self::Prompt],
        batch: &[Group],
        part: Range<usize>,
    ) -> Result<Scored<Self::Tape>, Self::Error>;

    /// Adds the gradient `sum_i,t dlogps[i][t] d log pi(a_i,t|s_i,t) / d theta` to what [`Policy::step`] will apply.
    ///
    /// # Errors
    /// When differentiation fails.
    fn backward(&mut self, tape: Self::Tape, dlogps: &[Vec<f64>]) -> Result<(), Self::Error>;

    /// [`Policy::backward`] with the credit of these responses, whose weights a policy needs that adds a term of its own to the loss, such as an
    /// entropy bonus. By default there is none.
    ///
    /// # Errors
    /// When differentiation fails.
    fn backward_credited(
        &mut self,
        tape: Self::Tape,
        dlogps: &[Vec<f64>],
        credits: &[Credit],
    ) -> Result<(), Self::Error> {
        let _ = credits;
        self.backward(tape, dlogps)
    }

    /// Moves the parameters against the accumulated gradient and clears it.
    ///
    /// # Errors
    /// When the optimiser fails.
    fn step(&mut self) -> Result<(), Self::Error>;
}

/// A policy that samples its own responses.
pub trait Samples: Policy {
    /// Samples and grades `group_size` responses to every prompt.
    ///
    /// # Errors
    /// If sampling fails.
    fn sample(&mut self, prompts: &[Self::Prompt], group_size: usize) -> Result<Vec<Group>, Self::Error>;
}

/// Samples a group for each prompt, then takes an [`update`] on them.
///
/// # Errors
/// Errors if the policy does.
pub fn iterate<P: Samples>(
    policy: &mut P,
    method: &dyn Method,
    prompts: &[P::Prompt],
    group_size: usize,
    inner_updates: usize,
) -> Result<Metrics, P::Error> {
    let batch = policy.sample(prompts, group_size)?;
    update(policy, method, prompts, &batch, inner_updates)
}

/// Fixes credit for a sampled batch once, then takes `inner_updates` (the `mu` of GRPO) gradient steps on it. Ratios are taken against
/// the sampler's log-probabilities, or against those of the first of these steps: see [`Policy::recomputes_old_logps`].
///
/// Returns the metrics of the last inner update.
///
/// # Errors
/// Whatever the policy returns.
pub fn update<P: Policy>(
    policy: &mut P,
    method: &dyn Method,
    prompts: &[P::Prompt],
    batch: &[Group],
    inner_updates: usize,
) -> Result<Metrics, P::Error> {
    let recomputes = policy.recomputes_old_logps();
    if recomputes && method.weights_read_old_logps() {
        let (scored, tape) = rescored(policy, prompts, batch)?;
        return trained(policy, method, (prompts, &scored), inner_updates, (false, tape));
    }
    trained(policy, method, (prompts, batch), inner_updates, (recomputes, None))
}

/// A batch that the policy has scored, with the tape of that pass where it is kept.
type Rescored<P> = (Vec<Group>, Option<<P as Policy>::Tape>);

/// The batch with the policy's own log-probabilities as `old_logps`, and the tape of a batch of one micro-batch: those of several would not be
/// in memory together, and are made again for the first gradient step.
fn rescored<P: Policy>(
    policy: &mut P,
    prompts: &[P::Prompt],
    batch: &[Group],
) -> Result<Rescored<P>, P::Error> {
    let (parts, mut rows, mut kept) = (policy.parts(prompts, batch), Vec::new(), None);
    for part in &parts {
        let (logps, tape) = policy.log_probs(prompts, batch, part.clone())?;
        rows.extend(logps);
        kept = (parts.len() == 1).then_some(tape);
    }
    let mut scored = batch.to_vec();
    for (response, row) in scored.iter_mut().flat_map(|g| &mut g.responses).zip(rows) {
        response.old_logps = row;
    }
    Ok((scored, kept))
}

/// The gradient steps of [`update`]. `first` is the tape of the first forward pass, if there was one: its log-probabilities are `old_logps`.
fn trained<P: Policy>(
    policy: &mut P,
    method: &dyn Method,
    (prompts, batch): (&[P::Prompt], &[Group]),
    inner_updates: usize,
    (recomputes, mut first): (bool, Option<P::Tape>),
) -> Result<Metrics, P::Error> {
    let credits = method.credit(batch);
    let mut responses: Vec<Cow<'_, Response>> =
        batch.iter().flat_map(|g| &g.responses).map(Cow::Borrowed).collect();
    let mut metrics = Metrics::default();
    for update in 0..inner_updates {
        metrics = credited_metrics(batch, &credits);
        for part in policy.parts(prompts, batch) {
            let (logps, tape) = match first.take() {
                Some(tape) => (responses.iter().map(|r| r.old_logps.clone()).collect(), tape),
                None => policy.log_probs(prompts, batch, part.clone())?,
            };
            if recomputes && update == 0 {
                for (response, logps) in responses[part.clone()].iter_mut().zip(&logps) {
                    response.to_mut().old_logps.clone_from(logps);
                }
            }
            let credits = &credits[part.clone()];
            let dlogps = gradients(method, &responses[part], credits, &logps, &mut metrics);
            policy.backward_credited(tape, &dlogps, credits)?;
        }
        policy.step()?;
    }
    Ok(metrics)
}

/// The gradient of the loss of each response in its log-probabilities. The metrics are merged into `metrics`.
fn gradients(
    method: &dyn Method,
    responses: &[Cow<'_, Response>],
    credits: &[Credit],
    logps: &[Vec<f64>],
    metrics: &mut Metrics,
) -> Vec<Vec<f64>> {
    let loss = |((response, credit), logps): ((&Cow<'_, Response>, &Credit), &Vec<f64>)| {
        let loss = method.loss(response, credit, logps);
        metrics.merge(&loss.metrics);
        loss.dlogps
    };
    responses.iter().zip(credits).zip(logps).map(loss).collect()
}
