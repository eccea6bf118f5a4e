//! Errors of distributed training.

/// Why distributed training failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CollectiveError {
    #[error("workers = {0}; must be a power of two")]
    Workers(usize),
    /// The number of shards cannot be divided among the workers.
    #[error("shards = {shards} for {workers} workers; must be a power of two and at least {workers}")]
    Shards { shards: usize, workers: usize },
    /// A worker failed or left while others waited for it.
    #[error("worker {rank} failed: {reason}")]
    Failed { rank: usize, reason: String },
    #[error("worker {rank} calls {found} where worker 0 calls {expected}; all must make the same calls")]
    Parted {
        rank: usize,
        /// Worker 0's call and size.
        expected: String,
        found: String,
    },
    #[error(
        "weights or optimiser of worker {rank} have digest {found:08x}, those of worker 0 {expected:08x}; \
         replicas must be equal to the bit, so the run stops"
    )]
    Diverged {
        rank: usize,
        /// Worker 0's digest.
        expected: u32,
        found: u32,
    },
    #[error("root = {root} of {workers} workers; must be smaller")]
    Root { root: usize, workers: usize },
    /// Rows from another worker cannot be decoded as a batch.
    #[error("the rows received do not spell a batch: {0}")]
    Rows(&'static str),
    #[error("{call}: {reason}")]
    Backend { call: &'static str, reason: String },
}
