//! What goes wrong between workers.

/// Why workers cannot go on together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CollectiveError {
    /// A number of workers without a complete tree.
    #[error("workers = {0}; must be a power of two")]
    Workers(usize),
    /// A number of shards that workers cannot share.
    #[error("shards = {shards} for {workers} workers; must be a power of two and at least {workers}")]
    Shards {
        /// Shards of a batch.
        shards: usize,
        /// Workers.
        workers: usize,
    },
    /// A worker failed or left, so that what the others wait for will not come.
    #[error("worker {rank} failed: {reason}")]
    Failed {
        /// The worker.
        rank: usize,
        /// What it said.
        reason: String,
    },
    /// Two workers are not at the same call: their programs have parted.
    #[error("worker {rank} calls {found} where worker 0 calls {expected}; all must make the same calls")]
    Parted {
        /// The worker.
        rank: usize,
        /// Worker 0's call and size.
        expected: String,
        /// This worker's.
        found: String,
    },
    /// Two replicas are not the same model any more.
    #[error(
        "weights or optimiser of worker {rank} have digest {found:08x}, those of worker 0 {expected:08x}; \
         replicas must be equal to the bit, so the run stops"
    )]
    Diverged {
        /// The worker.
        rank: usize,
        /// Worker 0's digest.
        expected: u32,
        /// This worker's.
        found: u32,
    },
    /// A root that is no worker.
    #[error("root = {root} of {workers} workers; must be smaller")]
    Root {
        /// Whose numbers were to be broadcast.
        root: usize,
        /// Workers.
        workers: usize,
    },
    /// Rows from another worker that do not spell a batch.
    #[error("the rows received do not spell a batch: {0}")]
    Rows(&'static str),
    /// The library below failed, or nobody answered in time.
    #[error("{call}: {reason}")]
    Backend {
        /// What was called.
        call: &'static str,
        /// What it said.
        reason: String,
    },
}
