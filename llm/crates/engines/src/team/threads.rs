//! Processes that are threads of one program: the same conversation over channels.

use std::sync::mpsc::{Receiver, SendError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};

use super::link::{Link, LinkError};
use super::{Team, worker};

/// The way to a thread: one that keeps messages, or one where the sender waits until its message is received.
enum Way {
    Kept(Sender<Vec<u8>>),
    Handed(SyncSender<Vec<u8>>),
}

impl Way {
    fn send(&self, message: Vec<u8>) -> Result<(), SendError<Vec<u8>>> {
        match self {
            Way::Kept(to) => to.send(message),
            Way::Handed(to) => to.send(message),
        }
    }
}

/// One thread's end of a team.
pub struct Threads {
    rank: usize,
    /// To and from every thread, itself included.
    to: Vec<Way>,
    from: Vec<Receiver<Vec<u8>>>,
    /// The process that ended first, and is named by others that end because of it, as `mpirun` does.
    first: Arc<OnceLock<usize>>,
}

impl Threads {
    /// The ends of a team of `size`, by rank.
    pub fn team(size: usize) -> Vec<Threads> {
        Threads::over(size, || {
            let (send, receive) = channel();
            (Way::Kept(send), receive)
        })
    }

    /// [`Threads::team`] whose senders wait for their receivers, as MPI's do with long messages.
    pub fn handing(size: usize) -> Vec<Threads> {
        Threads::over(size, || {
            let (send, receive) = sync_channel(0);
            (Way::Handed(send), receive)
        })
    }

    fn over(size: usize, way: impl Fn() -> (Way, Receiver<Vec<u8>>)) -> Vec<Threads> {
        let first = Arc::new(OnceLock::new());
        let end = |rank| Threads { rank, to: Vec::new(), from: Vec::new(), first: first.clone() };
        let mut ends: Vec<Threads> = (0..size).map(end).collect();
        for sender in 0..size {
            for receiver in 0..size {
                let (send, receive) = way();
                ends[sender].to.push(send);
                ends[receiver].from.push(receive);
            }
        }
        ends
    }

    fn gone(&self, other: usize) -> LinkError {
        LinkError { rank: *self.first.get().unwrap_or(&other), reason: "has ended".to_owned() }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.first.get_or_init(|| self.rank);
    }
}

impl Link for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn send(&mut self, to: usize, message: &[u8]) -> Result<(), LinkError> {
        self.to[to].send(message.to_vec()).map_err(|_| self.gone(to))
    }

    fn receive(&mut self, from: usize) -> Result<Vec<u8>, LinkError> {
        self.from[from].recv().map_err(|_| self.gone(from))
    }
}

/// Runs `lead` as the leader of a team of `size` threads; the others work until it ends.
///
/// # Panics
/// If a worker panics, or loses its leader before the leader says goodbye.
pub fn run<T>(size: usize, lead: impl FnOnce(&Team) -> T) -> T {
    run_over(Threads::team(size), lead)
}

/// [`run`] over these ends.
pub fn run_over<T>(ends: Vec<Threads>, lead: impl FnOnce(&Team) -> T) -> T {
    let mut ends = ends.into_iter();
    let leader = ends.next().map(|end| Team::new(Box::new(end))).unwrap_or_default();
    std::thread::scope(|scope| {
        for mut end in ends {
            scope.spawn(move || worker::work(&mut end).expect("the leader says goodbye"));
        }
        let result = lead(&leader);
        drop(leader);
        result
    })
}
