//! Errors of distributed training.

/// Why distributed training failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CollectiveError {
    /// The number of workers is not a power of two.
    #[error("workers = {0}; must be a power of two")]
    Workers(usize),
    /// The number of shards cannot be divided among the workers.
    #[error("shards = {shards} for {workers} workers; must be a power of two and at least {workers}")]
    Shards {
        /// Shards of a batch.
        shards: usize,
        /// Workers.
        workers: usize,
    },
    /// A worker failed or left while others waited for it.
    #[error("worker {rank} failed: {reason}")]
    Failed {
        /// The worker.
        rank: usize,
        /// What it said.
        reason: String,
    },
    /// Two workers made different collective calls.
    #[error("worker {rank} calls {found} where worker 0 calls {expected}; all must make the same calls")]
    Parted {
        /// The worker.
        rank: usize,
        /// Worker 0's call and size.
        expected: String,
        /// This worker's.
        found: String,
    },
    /// Two replicas have diverged.
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
    /// Rows from another worker cannot be decoded as a batch.
    #[error("the rows received do not spell a batch: {0}")]
    Rows(&'static str),
    /// The backend failed, or timed out.
    #[error("{call}: {reason}")]
    Backend {
        /// What was called.
        call: &'static str,
        /// What it said.
        reason: String,
    },
}
