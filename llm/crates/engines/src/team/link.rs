//! [`Link`]: what moves bytes between the processes of a team.

/// A process that cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("process {rank} {reason}")]
pub struct LinkError {
    /// The process at the other end.
    pub rank: usize,
    /// The problem with it, as the rest of a sentence.
    pub reason: String,
}

/// One process's end of a team. Messages between two processes arrive in the order in which they were sent, to the bit.
pub trait Link {
    /// The number of this process, from 0.
    fn rank(&self) -> usize;

    /// The number of processes.
    fn size(&self) -> usize;

    /// Sends `message` to process `to`. It may wait until that process receives it.
    fn send(&mut self, to: usize, message: &[u8]) -> Result<(), LinkError>;

    /// The next message from process `from`.
    fn receive(&mut self, from: usize) -> Result<Vec<u8>, LinkError>;
}

/// The end of a team of one.
pub struct Alone;

impl Alone {
    fn nobody<T>(rank: usize) -> Result<T, LinkError> {
        Err(LinkError { rank, reason: "does not exist".to_owned() })
    }
}

impl Link for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn send(&mut self, to: usize, _: &[u8]) -> Result<(), LinkError> {
        Alone::nobody(to)
    }

    fn receive(&mut self, from: usize) -> Result<Vec<u8>, LinkError> {
        Alone::nobody(from)
    }
}
