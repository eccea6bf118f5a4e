//! [`Worker`]: a replica of the model and its optimiser, which trains on its own rows and stays equal to all others.

use std::ops::Range;

use grpo_lambda::learner::Scored;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{Decoder, Error as ModelError, ForwardOptions, Gradients, Rows, Tape};
use grpo_lambda_decoder::optim::{AdamW, OptimError, StepOutcome};
use grpo_lambda_decoder::pack::pack;
use grpo_lambda_decoder::rollout::RolloutError;

use super::{Collective, CollectiveError, Shards, TreeSum};
use crate::config::MemoryConfig;
use crate::step::engine::take_weights;
use crate::step::micro_batch::split_prompt;
use crate::step::sft::{Example, SftReport};

/// Why a worker failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Optim(#[from] OptimError),
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    /// Another worker failed, or the replicas have diverged.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
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
    /// The gradient of the shard at hand.
    leaf: Gradients<f32>,
    /// The gradients of the shards before it.
    fold: TreeSum<Parameters<f32>>,
    /// Gradient of the current shard.
    shard: usize,
    /// Log-probabilities of the rows so far.
    own: Vec<Vec<f64>>,
}

/// A row that is scored: its prompt and its response.
pub(super) type Row<'a> = (&'a [u32], &'a [u32]);

/// What the backward pass of some rows needs.
pub struct ShardTape {
    shard: usize,
    logps: Vec<Vec<f64>>,
    tape: Tape<f32>,
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
        let (fold, shard, own) = (TreeSum::default(), 0, Vec::new());
        let mut worker = Worker { model, optimiser, collective, shards, memory, leaf, fold, shard, own };
        worker.begin();
        worker.check()?;
        Ok(worker)
    }

    /// The replica.
    pub fn model(&self) -> &Decoder<f32> {
        &self.model
    }

    pub fn optimiser(&self) -> &AdamW {
        &self.optimiser
    }

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

    /// Fails when a replica's weights or optimiser state differ from those of worker 0.
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

    /// One supervised step on the examples of all workers: [`crate::step::sft::step`] over shards.
    ///
    /// The loss is the mean over the response tokens of the *whole* batch, whoever scores them.
    pub fn sft_step(&mut self, examples: &[Example], rate: f64) -> Result<SftReport, WorkerError> {
        let tokens: usize = examples.iter().map(|e| e.response.len()).sum();
        let rows: Vec<Row<'_>> =
            examples.iter().map(|e| (e.prompt.as_slice(), e.response.as_slice())).collect();
        self.begin();
        for part in self.parts(&rows) {
            let (logps, tape) = self.forward(&rows, part, 1.0, false)?;
            let dlogps: Vec<Vec<f64>> =
                logps.iter().map(|row| vec![-1.0 / tokens as f64; row.len()]).collect();
            self.backward(tape, &dlogps);
        }
        let (update, logps) = self.step(rate)?;
        let loss = -logps.iter().flatten().sum::<f64>() / tokens as f64;
        Ok(SftReport { loss, tokens, update })
    }

    /// Begins a gradient anew.
    pub(super) fn begin(&mut self) {
        self.shard = self.own_shards().start;
        self.own.clear();
        self.leaf.clear();
        self.fold.clear();
    }

    fn own_shards(&self) -> Range<usize> {
        self.shards.of(self.collective.rank())
    }

    /// The own rows in micro-batches, each within a shard.
    pub(super) fn parts(&self, rows: &[Row<'_>]) -> Vec<Range<usize>> {
        let within = |shard: usize| {
            let range = self.shards.rows(shard, rows.len());
            let lengths = rows[range.clone()].iter().map(|(prompt, response)| prompt.len() + response.len());
            let parts = pack(lengths, self.memory.micro_batch_tokens).into_iter();
            parts.map(move |part| range.start + part.start..range.start + part.end)
        };
        self.own_shards().flat_map(within).collect()
    }

    /// Log-probabilities of own rows, one of [`Worker::parts`], at this temperature. To `share`, rows of one prompt continue it as one prefix.
    pub(super) fn forward(
        &self,
        rows: &[Row<'_>],
        part: Range<usize>,
        temperature: f64,
        share: bool,
    ) -> Result<Scored<ShardTape>, ModelError> {
        let options =
            ForwardOptions { temperature, entropy: false, checkpoint: self.memory.recompute_layers };
        let owner = |shard: &usize| self.shards.rows(*shard, rows.len()).contains(&part.start);
        let shard = self.own_shards().find(owner).expect("a part of the own rows");
        let mut packed = Rows::new();
        let mut last = None;
        for (prompt, response) in &rows[part] {
            let (shared, first) = if share { split_prompt(prompt) } else { (&[][..], *prompt) };
            if last != Some(*prompt) {
                packed.share(shared);
            }
            packed.push(&[first, *response].concat(), first.len());
            last = Some(*prompt);
        }
        let (scores, tape) = self.model.forward(&packed, options)?;
        Ok((scores.logps.clone(), ShardTape { shard, logps: scores.logps, tape }))
    }

    /// Adds the gradient of some rows; parts come in order.
    pub(super) fn backward(&mut self, tape: ShardTape, dlogps: &[Vec<f64>]) {
        let ShardTape { shard, logps, tape } = tape;
        while self.shard < shard {
            self.complete_shard();
        }
        self.model.backward(tape, dlogps, &mut self.leaf);
        self.own.extend(logps);
    }

    /// Hands the gradient of the shard at hand, of no row perhaps, to the tree.
    fn complete_shard(&mut self) {
        self.model.complete(&mut self.leaf, self.memory.recompute_layers);
        self.fold.push(self.leaf.parameters());
        self.leaf.clear();
        self.shard += 1;
    }

    /// Gathers the log-probabilities of all rows, adds the subtrees of all workers, moves the weights against the sum, and compares
    /// replicas. Returns what the optimiser did, and the log-probabilities.
    pub(super) fn step(&mut self, rate: f64) -> Result<(StepOutcome, Vec<Vec<f64>>), WorkerError> {
        let logps = self.collective.gather(&self.own)?;
        let own = self.own_shards();
        // A single shard is its own subtree and needs no copy.
        if own.len() > 1 {
            while self.shard < own.end {
                self.complete_shard();
            }
        }
        let sum = match self.fold.root() {
            Some(root) => root,
            None => {
                self.model.complete(&mut self.leaf, self.memory.recompute_layers);
                self.leaf.parameters()
            }
        };
        for tensor in sum.values_mut() {
            self.collective.all_reduce(&mut tensor.data)?;
        }
        let by_name: Vec<(&str, &[f32])> = sum.iter().map(|(n, t)| (n.as_str(), t.data.as_slice())).collect();
        let update = self.optimiser.step(rate, &by_name)?;
        if let StepOutcome::Applied { .. } = update {
            take_weights(&mut self.model, &self.optimiser);
        }
        self.check()?;
        self.begin();
        Ok((update, logps))
    }
}
