//! [`ShardPolicy`]: a worker behind the core's [`Policy`] trait, so that its updates are those of [`learner::update`].

use std::ops::Range;

use grpo_lambda::group::Group;
use grpo_lambda::learner::{self, Policy, Scored};
use grpo_lambda::methods::{Method, batch_metrics};
use grpo_lambda::metrics::Metrics;
use grpo_lambda_decoder::optim::StepOutcome;

use super::Collective;
use super::run::DistributedRun;
use super::worker::{Row, ShardTape, Worker, WorkerError};
use crate::step::micro_batch;

/// Report of an update; the same for every worker.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateReport {
    /// The loss of the whole batch before the last inner update.
    pub loss: f64,
    /// Metrics of the whole batch, of the last inner update.
    pub metrics: Metrics,
    /// Whether each inner update was applied, or skipped because of a NaN.
    pub updates: Vec<StepOutcome>,
}

/// A worker during the update on one batch. It scores its own rows and adds up their gradients; a step moves all workers alike.
///
/// Credit is fixed on the whole batch, in every worker, hence baselines and normalisers are those of the whole batch. A row's share of
/// the loss needs, beside its credit, its own log-probabilities alone (see [`Method`]), so that its gradient need not wait for the others.
pub struct ShardPolicy<'a, C: Collective> {
    worker: &'a mut Worker<C>,
    plan: &'a DistributedRun<'a>,
    /// Of the next sample.
    step: u64,
    updates: Vec<StepOutcome>,
    /// Log-probabilities of all rows before the last inner update.
    gathered: Vec<Vec<f64>>,
}

impl<'a, C: Collective> ShardPolicy<'a, C> {
    /// `worker` at a step of `plan`.
    pub fn new(worker: &'a mut Worker<C>, plan: &'a DistributedRun<'a>, step: u64) -> Self {
        worker.begin();
        ShardPolicy { worker, plan, step, updates: Vec::new(), gathered: Vec::new() }
    }

    /// The update of [`learner::update`] over shards: group `i` of the batch answers prompt `i`.
    ///
    /// That loop sees the losses of this worker's rows. Those of all rows are evaluated from the gathered log-probabilities, row by row, so
    /// that what is reported has the same bits for any number of workers.
    pub fn update(mut self, prompts: &[Vec<u32>], batch: &[Group]) -> Result<UpdateReport, WorkerError> {
        let (method, inner_updates) = (self.plan.method, self.plan.settings.inner_updates);
        learner::update(&mut self, method, prompts, batch, inner_updates)?;
        let (loss, metrics) = evaluated(method, batch, &self.gathered);
        Ok(UpdateReport { loss, metrics, updates: self.updates })
    }
}

/// Loss and metrics of a batch, its rows added in flat order.
fn evaluated(method: &dyn Method, batch: &[Group], logps: &[Vec<f64>]) -> (f64, Metrics) {
    let (mut loss, mut metrics) = (0.0, batch_metrics(batch));
    for (((_, response), credit), logps) in micro_batch::flat(batch).zip(method.credit(batch)).zip(logps) {
        let share = method.loss(response, &credit, logps);
        loss += share.value;
        metrics.merge(&share.metrics);
    }
    (loss, metrics)
}

/// The rows of a batch, in flat order.
fn rows<'b>(prompts: &'b [Vec<u32>], batch: &'b [Group]) -> Vec<Row<'b>> {
    micro_batch::flat(batch).map(|(g, r)| (prompts[g].as_slice(), r.tokens.as_slice())).collect()
}

impl<C: Collective> Policy for ShardPolicy<'_, C> {
    type Prompt = Vec<u32>;
    type Tape = ShardTape;
    type Error = WorkerError;

    fn sample(&mut self, prompts: &[Vec<u32>], group_size: usize) -> Result<Vec<Group>, WorkerError> {
        let batch = self.plan.sample(self.worker, prompts, group_size, self.step)?;
        self.step += 1;
        Ok(batch)
    }

    fn parts(&self, prompts: &[Vec<u32>], batch: &[Group]) -> Vec<Range<usize>> {
        self.worker.parts(&rows(prompts, batch))
    }

    fn log_probs(
        &self,
        prompts: &[Vec<u32>],
        batch: &[Group],
        part: Range<usize>,
    ) -> Result<Scored<ShardTape>, WorkerError> {
        Ok(self.worker.forward(&rows(prompts, batch), part, self.plan.settings.temperature, true)?)
    }

    fn backward(&mut self, tape: ShardTape, dlogps: &[Vec<f64>]) -> Result<(), WorkerError> {
        self.worker.backward(tape, dlogps);
        Ok(())
    }

    fn step(&mut self) -> Result<(), WorkerError> {
        let (update, logps) = self.worker.step(self.plan.settings.rate)?;
        self.updates.push(update);
        self.gathered = logps;
        Ok(())
    }
}
