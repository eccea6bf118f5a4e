//! Data-parallel training: the interface between workers, and why their number does not change a bit of the result.
//!
//! | module | holds |
//! | --- | --- |
//! | [`Collective`] | the interface: all-reduce, gather, broadcast, barrier |
//! | [`SingleWorker`] | one worker |
//! | [`threads`] | workers that are threads of one process |
//! | `nccl` (feature `nccl`) | a GPU per worker; compiled, never run: see there |
//! | [`tree`] | the one order of additions |
//! | [`shards`] | how a batch is cut into shards, and which worker owns which |
//! | [`batch`] | gathers what all workers sampled |
//! | [`worker`] | a replica: its shards, and a step of imitation |
//! | [`policy`] | a worker as the learner's policy: the update of any method |
//! | [`training`] | a short run of both |
//!
//! # The equation
//!
//! The gradient of a batch is a sum over its rows, and a sum of `f32` depends on the order of its additions. So the order is
//! fixed. A batch is cut into `S` shards, a power of two, of consecutive rows. With `g_s` the gradient of shard `s`, its rows
//! accumulated in order,
//!
//! ```text
//! G = T(0, S),     T(a, 1) = g_a,     T(a, n) = T(a, n/2) + T(a + n/2, n/2)     (one rounding per + and element)
//! ```
//!
//! Of `N` workers, `N` a power of two and `N <= S`, worker `r` owns shards `r S/N .. (r+1) S/N`: its sum `T(r S/N, S/N)` is one
//! node of this tree, and the nodes above it are the tree over `N` leaves that [`Collective::all_reduce`] adds. Hence `G` has the
//! same bits for `N` = 1, 2, 4, ..., `S`, and with it the norm it is clipped by, the optimiser's state and the weights.
//!
//! **`S` is a setting of the result, like a seed; `N` is not, like a number of threads.** Another `S` is another association,
//! with other last digits. A run continued on other hardware keeps `S` and chooses `N`. With `S = 1` the bits are those of
//! [`crate::step::sft::step`] and of [`grpo_lambda::learner::update`], which know nothing of shards.
//!
//! What else would depend on `N` does not: random numbers are addressed by step, prompt and response; micro-batches, which change no
//! bit, are packed anew in each shard; baselines and normalisers are those of the whole batch, which every worker holds
//! ([`gather_groups`]); the loss that is logged is summed row by row from gathered log-probabilities. A gradient that is not finite
//! reaches every worker's sum, so that all skip the step or none. After every step replicas compare a digest of weights and
//! optimiser ([`CollectiveError::Diverged`]).
//!
//! # Memory
//!
//! A worker adds up its subtree as shards complete ([`TreeSum`]): it holds `log2(S/N) + 1` buffers of the gradient's size, one where
//! `S = N`. Call by call the collective adds a bounded chunk per worker.
//!
//! # Failures
//!
//! A worker that fails calls [`Collective::abort`] (or is dropped); all others then get [`CollectiveError::Failed`] with its rank
//! from the call they wait in or make next. [`threads::run`] does this for errors and panics.
//!
//! # What real multi-GPU training still lacks
//!
//! - A run of `nccl`: nothing of it has been executed. It gathers all workers' gradients and adds them locally: `N - 1` times
//!   the gradient received per worker, where a ring needs twice. Exchanging slices (worker `r` adds slice `r` of all, then the sums are
//!   gathered) has the ring's traffic and this tree's bits; overlapping it with the backward pass would hide it.
//! - A launcher: who starts processes and hands round NCCL's identifier. `train` and its configuration know one worker.
//! - Equality *across* kinds of device is not claimed: a GPU's products round otherwise than this CPU's. Equality over `N` on one kind
//!   needs a backward pass whose sums do not depend on which rows share a launch beyond their shard: shards are launched alone.
//! - Shards are cut by rows, not by tokens: ragged rows make workers wait. Cutting by tokens would be as independent of `N`.
//! - Weights, optimiser and moments are whole in every worker: nothing is sharded (ZeRO, tensor or pipeline parallelism).
//! - A worker that dies ends the run for all; it continues from the last checkpoint.

pub mod batch;
pub mod error;
#[cfg(feature = "nccl")]
pub mod nccl;
pub mod policy;
pub mod run;
pub mod shards;
pub mod single;
pub mod threads;
pub mod training;
pub mod tree;
pub mod worker;

pub use batch::gather_groups;
pub use error::CollectiveError;
pub use policy::{ShardPolicy, UpdateReport};
pub use run::{DistributedRun, UpdateSettings};
pub use shards::Shards;
pub use single::SingleWorker;
pub use threads::Threads;
pub use tree::{Summand, TreeSum};
pub use worker::{Worker, WorkerError};

/// One worker's side of a team: every call is made by all workers, in the same order, and returns when all have made it.
pub trait Collective {
    /// Which worker this is, from 0.
    fn rank(&self) -> usize;

    /// How many there are: a power of two.
    fn size(&self) -> usize;

    /// Replaces `values` by their sum over all workers, added along the complete binary tree over ranks (see [`TreeSum`]).
    ///
    /// # Errors
    /// [`CollectiveError`]: when another worker failed, makes another call, or has another number of values.
    fn all_reduce(&mut self, values: &mut [f32]) -> Result<(), CollectiveError>;

    /// The rows of all workers, in the order of ranks, to the bit. Numbers of rows and their lengths may differ.
    fn gather(&mut self, rows: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, CollectiveError>;

    /// Overwrites `values` by those of worker `root`.
    fn broadcast(&mut self, root: usize, values: &mut [f32]) -> Result<(), CollectiveError>;

    /// Returns when all workers are here.
    fn barrier(&mut self) -> Result<(), CollectiveError>;

    /// Tells the others that this worker makes no further call, and why. Calls after it fail.
    fn abort(&mut self, reason: &str);
}

impl<C: Collective + ?Sized> Collective for &mut C {
    fn rank(&self) -> usize {
        (**self).rank()
    }
    fn size(&self) -> usize {
        (**self).size()
    }
    fn all_reduce(&mut self, values: &mut [f32]) -> Result<(), CollectiveError> {
        (**self).all_reduce(values)
    }
    fn gather(&mut self, rows: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, CollectiveError> {
        (**self).gather(rows)
    }
    fn broadcast(&mut self, root: usize, values: &mut [f32]) -> Result<(), CollectiveError> {
        (**self).broadcast(root, values)
    }
    fn barrier(&mut self) -> Result<(), CollectiveError> {
        (**self).barrier()
    }
    fn abort(&mut self, reason: &str) {
        (**self).abort(reason);
    }
}
