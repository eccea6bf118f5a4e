use super::link::LinkError;

/// Why a team cannot work, or go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TeamError {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("process {rank} failed: {reason}")]
    Failed { rank: usize, reason: String },
    /// The shards are no complete tree, or a process would have none.
    #[error(
        "shards = {shards} with {processes} processes: must be a power of two of at least {processes}; the shards belong to the result, like the \
         seed, and the number of processes does not"
    )]
    Shards { shards: usize, processes: usize },
    #[error(
        "device = {0}: several processes, and shards other than 1, are for the CPU; set device=cpu, or shards=1"
    )]
    OnCard(String),
}
