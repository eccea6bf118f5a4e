//! [`Mpi`]: processes of MPI, as `mpirun` starts them.
//!
//! Messages go between two processes only; MPI never adds. A call that MPI itself refuses ends all processes, as MPI's own error handler does.

use std::time::{Duration, Instant};

use mpi::Threading;
use mpi::environment::Universe;
use mpi::request::{Request, Scope, scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Source};

use super::link::{Link, LinkError};
use grpo_lambda_trainer::run::progress::say;

/// Bytes of a message that MPI is given at a time; it counts in 32 bits.
const CHUNK: usize = 1 << 30;
/// An answer that comes sooner is waited for without sleeping.
const AWAKE: Duration = Duration::from_millis(1);
const NAP: Duration = Duration::from_micros(100);

/// One process's end of a team of MPI.
pub(super) struct Mpi {
    world: SimpleCommunicator,
    patience: Duration,
    // After the communicator: dropped, it ends MPI.
    _universe: Universe,
}

impl Mpi {
    /// Starts MPI; none when it was started before.
    pub(super) fn join(patience: Duration) -> Option<Mpi> {
        let (universe, _) = mpi::initialize_with_threading(Threading::Funneled)?;
        let world = universe.world();
        Some(Mpi { world, patience, _universe: universe })
    }

    /// The time that this process waits for `other`. For the leader a worker waits for ever: the leader may evaluate or write for long, and when
    /// it dies `mpirun` ends all. For each other workers wait less long than the leader for them, so that the one that hangs is named.
    fn patience(&self, other: usize) -> Option<Duration> {
        match (self.world.rank(), other) {
            (0, _) => Some(self.patience),
            (_, 0) => None,
            _ => Some(self.patience * 3 / 4),
        }
    }

    /// Waits until a transfer with `other` is done.
    fn wait<'a, D: ?Sized, S: Scope<'a>>(&self, other: usize, mut request: Request<'a, D, S>) {
        let since = Instant::now();
        loop {
            match request.test() {
                Ok(_) => return,
                Err(open) => request = open,
            }
            if self.patience(other).is_some_and(|patience| since.elapsed() > patience) {
                let seconds = since.elapsed().as_secs_f64();
                say(&format!(
                    "llm-train: error: process {other} has not answered for {seconds:.0} s, so all end; the same command goes on from the last checkpoint"
                ));
                self.world.abort(1);
            }
            if since.elapsed() > AWAKE {
                std::thread::sleep(NAP);
            } else {
                std::thread::yield_now();
            }
        }
    }
}

impl Drop for Mpi {
    /// MPI waits in its end for all processes; those that wait for one that has panicked would never come to it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.world.abort(1);
        }
    }
}

impl Link for Mpi {
    fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    fn size(&self) -> usize {
        self.world.size() as usize
    }

    fn send(&mut self, to: usize, message: &[u8]) -> Result<(), LinkError> {
        let process = self.world.process_at_rank(to as i32);
        let length = [message.len() as u64];
        scope(|open| self.wait(to, process.immediate_send(open, &length[..])));
        for chunk in message.chunks(CHUNK) {
            scope(|open| self.wait(to, process.immediate_send(open, chunk)));
        }
        Ok(())
    }

    fn receive(&mut self, from: usize) -> Result<Vec<u8>, LinkError> {
        let process = self.world.process_at_rank(from as i32);
        let mut length = [0u64];
        scope(|open| self.wait(from, process.immediate_receive_into(open, &mut length[..])));
        let mut message = vec![0u8; length[0] as usize];
        for chunk in message.chunks_mut(CHUNK) {
            scope(|open| self.wait(from, process.immediate_receive_into(open, chunk)));
        }
        Ok(message)
    }
}
