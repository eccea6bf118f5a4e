//! A short distributed training run: supervised steps, then RL.

use grpo_lambda::group::Group;
use grpo_lambda::learner::Policy;

use super::Collective;
use super::policy::{ShardPolicy, UpdateReport};
use super::run::DistributedRun;
use super::worker::{Worker, WorkerError};
use crate::step::sft::{Example, SftReport};

/// Report of a distributed run; the same for every worker.
#[derive(Clone, Debug, PartialEq)]
pub struct DistributedReport {
    /// Reports of the supervised steps.
    pub sft: Vec<SftReport>,
    /// Batches sampled, by all workers together.
    pub batches: Vec<Vec<Group>>,
    /// Updates on them.
    pub updates: Vec<UpdateReport>,
    /// [`Worker::digest`] at the end.
    pub digest: u32,
}

/// Runs it. Each worker samples and grades the responses to its share of the prompts; the batch is then gathered.
pub fn train<C: Collective>(
    worker: &mut Worker<C>,
    plan: &DistributedRun,
) -> Result<DistributedReport, WorkerError> {
    let sft_step = |examples: &Vec<Example>| worker.sft_step(examples, plan.sft_rate);
    let sft = plan.examples.iter().map(sft_step).collect::<Result<_, _>>()?;
    let (mut batches, mut updates) = (Vec::new(), Vec::new());
    for (step, prompts) in (0..).zip(plan.prompts) {
        let mut policy = ShardPolicy::new(worker, plan, step);
        let batch = policy.sample(prompts, plan.group_size)?;
        updates.push(policy.update(prompts, &batch)?);
        batches.push(batch);
    }
    Ok(DistributedReport { sft, batches, updates, digest: worker.digest() })
}
