//! [`Worker`]: a replica of the model and its optimiser, which trains on its own rows and stays equal to all others.

use std::ops::Range;

use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Method, batch_metrics};
use grpo_lambda::metrics::Metrics;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{Decoder, Error as ModelError, Gradients, Options, Rows};
use grpo_lambda_decoder::optim::{AdamW, OptimError, Update};
use grpo_lambda_decoder::pack::pack;
use grpo_lambda_decoder::rollout::RolloutError;

use super::{Collective, CollectiveError, Fold, Shards};
use crate::config::MemoryConfig;
use crate::step::engine::take_weights;
use crate::step::sft::{Example, SftReport};

/// What stops a worker.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The model refused its input.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The optimiser refused.
    #[error(transparent)]
    Optim(#[from] OptimError),
    /// Sampling failed.
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    /// Another worker failed, or the workers have parted.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
}

/// What an update did; the same for every worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Updated {
    /// The loss of the whole batch before the last inner update.
    pub loss: f64,
    /// Metrics of the whole batch, of the last inner update.
    pub metrics: Metrics,
    /// The optimiser's word on each inner update.
    pub updates: Vec<Update>,
}

/// One replica.
///
/// Every worker is given the whole batch and works on the rows of its shards; see [`super`] for the order of sums.
pub struct Worker<C: Collective> {
    model: Decoder<f32>,
    optimiser: AdamW,
    collective: C,
    shards: Shards,
    memory: MemoryConfig,
    /// The shard at hand.
    leaf: Gradients<f32>,
    /// The shards before it.
    fold: Fold<Parameters<f32>>,
}

/// How an update runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Learning rate.
    pub rate: f64,
    /// Divides the logits; that of the sampler.
    pub temperature: f64,
    /// Gradient steps on the batch.
    pub inner_updates: usize,
}

impl<C: Collective> Worker<C> {
    /// A replica of `model` and `optimiser`, which all workers must have alike, with a batch cut into `shards`.
    ///
    /// # Errors
    /// [`CollectiveError::Workers`], [`CollectiveError::Shards`], and [`CollectiveError::Diverged`] when workers start apart:
    /// a state that was restored or loaded by one alone.
    pub fn new(
        model: Decoder<f32>,
        optimiser: AdamW,
        collective: C,
        shards: usize,
        memory: MemoryConfig,
    ) -> Result<Self, WorkerError> {
        let shards = Shards::new(shards, collective.size())?;
        let leaf = Gradients::new(model.config(), |name| optimiser.weights(name).is_some());
        let mut worker = Worker { model, optimiser, collective, shards, memory, leaf, fold: Fold::default() };
        worker.check()?;
        Ok(worker)
    }

    /// The replica.
    pub fn model(&self) -> &Decoder<f32> {
        &self.model
    }

    /// Its optimiser.
    pub fn optimiser(&self) -> &AdamW {
        &self.optimiser
    }

    /// The others.
    pub fn collective(&mut self) -> &mut C {
        &mut self.collective
    }

    /// Buffers of the size of the gradient that it holds: `log2(S/N) + 1`.
    pub fn buffers(&self) -> usize {
        1 + self.fold.buffers()
    }

    /// CRC-32C of the weights, by name, and of the optimiser's state.
    pub fn digest(&self) -> u32 {
        self.model.parameters().iter().fold(self.optimiser.digest(), |sum, (name, tensor)| {
            let sum = crc32c::crc32c_append(sum, name.as_bytes());
            crc32c::crc32c_append(sum, bytemuck::cast_slice(&tensor.data))
        })
    }

    /// Stops where a replica has other weights than worker 0, or another state of its optimiser.
    ///
    /// # Errors
    /// [`CollectiveError::Diverged`] in every worker alike.
    pub fn check(&mut self) -> Result<(), CollectiveError> {
        // A u32 is exact in an f64.
        let digests = self.collective.gather(&[vec![f64::from(self.digest())]])?;
        let digests: Vec<u32> = digests.iter().flatten().map(|d| *d as u32).collect();
        match digests.iter().position(|d| *d != digests[0]) {
            None => Ok(()),
            Some(rank) => Err(CollectiveError::Diverged { rank, expected: digests[0], found: digests[rank] }),
        }
    }

    /// One step of imitation on the examples of all workers: [`crate::step::sft::step`] over shards.
    ///
    /// The loss is the mean over the response tokens of the *whole* batch, whoever scores them.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn imitate(&mut self, examples: &[Example], rate: f64) -> Result<SftReport, WorkerError> {
        let tokens: usize = examples.iter().map(|e| e.response.len()).sum();
        let row = |i: usize| (examples[i].prompt.as_slice(), examples[i].response.as_slice());
        let slope = |_: usize, logps: &[f64]| vec![-1.0 / tokens as f64; logps.len()];
        let logps = self.pull(examples.len(), row, 1.0, slope)?;
        let loss = -logps.iter().flatten().sum::<f64>() / tokens as f64;
        let update = self.step(rate)?;
        Ok(SftReport { loss, tokens, update })
    }

    /// The update of [`grpo_lambda::learner::update`] over shards: group `i` of the batch answers prompt `i`.
    ///
    /// Credit is fixed on the whole batch, in every worker, hence baselines and normalisers are those of the whole batch. A worker
    /// scores its own rows and pulls their gradients back; a row's share of the loss needs, beside its credit, its own
    /// log-probabilities alone (see [`Method`]), so that this need not wait for the others. All log-probabilities are gathered
    /// then, and every worker evaluates the loss and the metrics of the whole batch.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn update(
        &mut self,
        method: &dyn Method,
        prompts: &[Vec<u32>],
        batch: &[Group],
        pace: Pace,
    ) -> Result<Updated, WorkerError> {
        let credits = method.credit(batch);
        let responses: Vec<(usize, &Response)> = batch
            .iter()
            .enumerate()
            .flat_map(|(g, group)| group.responses.iter().map(move |r| (g, r)))
            .collect();
        let mut updated = Updated { loss: 0.0, metrics: Metrics::default(), updates: Vec::new() };
        for _ in 0..pace.inner_updates {
            let row = |i: usize| (prompts[responses[i].0].as_slice(), responses[i].1.tokens.as_slice());
            let loss = |i: usize, logps: &[f64]| method.loss(responses[i].1, &credits[i], logps);
            let logps = self.pull(responses.len(), row, pace.temperature, |i, l| loss(i, l).dlogps)?;
            updated.loss = 0.0;
            updated.metrics = batch_metrics(batch);
            for (i, logps) in logps.iter().enumerate() {
                let share = loss(i, logps);
                updated.loss += share.value;
                updated.metrics.merge(&share.metrics);
            }
            updated.updates.push(self.step(pace.rate)?);
        }
        Ok(updated)
    }

    /// Scores the own rows of `rows`, adds their gradients up to this worker's subtree, and returns the log-probabilities of all rows.
    ///
    /// `row(i)` is prompt and response of row `i`; `slopes(i, logps)` is `d loss / d logps` at these log-probabilities of it.
    fn pull<'a>(
        &mut self,
        rows: usize,
        row: impl Fn(usize) -> (&'a [u32], &'a [u32]),
        temperature: f64,
        slopes: impl Fn(usize, &[f64]) -> Vec<f64>,
    ) -> Result<Vec<Vec<f64>>, WorkerError> {
        let options = Options { temperature, entropy: false, checkpoint: self.memory.recompute_layers };
        let mut own = Vec::new();
        let shards = self.shards.of(self.collective.rank());
        let alone = shards.len() == 1;
        self.fold.clear();
        for shard in shards {
            self.leaf.clear();
            let range = self.shards.rows(shard, rows);
            let lengths = range.clone().map(|i| row(i).0.len() + row(i).1.len());
            for part in pack(lengths, self.memory.micro_batch_tokens) {
                let part: Range<usize> = range.start + part.start..range.start + part.end;
                let mut packed = Rows::new();
                for (prompt, response) in part.clone().map(&row) {
                    packed.push(&[prompt, response].concat(), prompt.len());
                }
                let (scores, tape) = self.model.forward(&packed, options)?;
                let dlogps: Vec<_> = part.zip(&scores.logps).map(|(i, logps)| slopes(i, logps)).collect();
                self.model.backward(tape, &dlogps, &mut self.leaf);
                own.extend(scores.logps);
            }
            // A single shard is its own subtree and stays where it is.
            if !alone {
                self.fold.push(self.leaf.parameters());
            }
        }
        Ok(self.collective.gather(&own)?)
    }

    /// Adds the subtrees of all workers, moves the weights against the sum, and compares replicas.
    fn step(&mut self, rate: f64) -> Result<Update, WorkerError> {
        let sum = match self.fold.root() {
            Some(root) => root,
            None => self.leaf.parameters(),
        };
        for tensor in sum.values_mut() {
            self.collective.all_reduce(&mut tensor.data)?;
        }
        let by_name: Vec<(&str, &[f32])> = sum.iter().map(|(n, t)| (n.as_str(), t.data.as_slice())).collect();
        let update = self.optimiser.step(rate, &by_name)?;
        if let Update::Applied { .. } = update {
            take_weights(&mut self.model, &self.optimiser);
        }
        self.check()?;
        Ok(update)
    }
}
