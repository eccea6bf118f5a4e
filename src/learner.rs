//! The training step of Algorithms 1 and 2, over any policy.

use crate::group::Group;
use crate::methods::{Method, batch_metrics};
use crate::metrics::Metrics;

/// Log-probabilities of every token of every response, with the tape to differentiate them.
pub type Scored<Tape> = (Vec<Vec<f64>>, Tape);

/// Something that samples responses, scores them and can be pushed along a gradient of its log-probabilities.
///
/// A table and a transformer differ only in this trait's implementation.
pub trait Policy {
    /// What a response answers.
    type Prompt;
    /// What [`Policy::log_probs`] keeps for [`Policy::backward`].
    type Tape;
    /// How it fails.
    type Error;

    /// Samples and grades `g` responses to `prompt`.
    ///
    /// # Errors
    /// When sampling fails.
    fn sample(&mut self, prompt: &Self::Prompt, g: usize) -> Result<Group, Self::Error>;

    /// Current `log pi(a_t|s_t)` of every token of every response of the batch, flat order, with the tape to differentiate them.
    ///
    /// # Errors
    /// When scoring fails.
    fn log_probs(&self, batch: &[Group]) -> Result<Scored<Self::Tape>, Self::Error>;

    /// Adds the gradient `sum_i,t dlogps[i][t] d log pi(a_i,t|s_i,t) / d theta` to what [`Policy::step`] will apply.
    ///
    /// # Errors
    /// When differentiation fails.
    fn backward(&mut self, tape: Self::Tape, dlogps: &[Vec<f64>]) -> Result<(), Self::Error>;

    /// Moves the parameters against the accumulated gradient and clears it.
    ///
    /// # Errors
    /// When the optimiser fails.
    fn step(&mut self) -> Result<(), Self::Error>;
}

/// One iteration: sample a group per prompt, fix credit once, then `inner_updates` (the `mu` of GRPO) gradient steps on it.
///
/// Returns the metrics of the last inner update.
///
/// # Errors
/// Whatever the policy returns.
pub fn iterate<P: Policy>(
    policy: &mut P,
    method: &dyn Method,
    prompts: &[P::Prompt],
    group_size: usize,
    inner_updates: usize,
) -> Result<Metrics, P::Error> {
    let batch: Vec<Group> = prompts.iter().map(|p| policy.sample(p, group_size)).collect::<Result<_, _>>()?;
    let credits = method.credit(&batch);
    let mut metrics = Metrics::default();
    for _ in 0..inner_updates {
        metrics = batch_metrics(&batch);
        let (logps, tape) = policy.log_probs(&batch)?;
        let responses = batch.iter().flat_map(|g| &g.responses);
        let mut dlogps = Vec::with_capacity(logps.len());
        for ((response, credit), logps) in responses.zip(&credits).zip(&logps) {
            let loss = method.loss(response, credit, logps);
            metrics.merge(&loss.metrics);
            dlogps.push(loss.dlogps);
        }
        policy.backward(tape, &dlogps)?;
        policy.step()?;
    }
    Ok(metrics)
}
