//! Processes that are threads of one program: the same conversation over channels.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::link::{Link, LinkError};
use super::{Team, worker};

/// One thread's end of a team.
pub struct Threads {
    rank: usize,
    /// To and from every thread, itself included.
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
}

impl Threads {
    /// The ends of a team of `size`, by rank.
    pub fn team(size: usize) -> Vec<Threads> {
        let mut ends: Vec<Threads> =
            (0..size).map(|rank| Threads { rank, to: Vec::new(), from: Vec::new() }).collect();
        for sender in 0..size {
            for receiver in 0..size {
                let (send, receive) = channel();
                ends[sender].to.push(send);
                ends[receiver].from.push(receive);
            }
        }
        ends
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
        let gone = |_| LinkError { rank: to, reason: "has ended".to_owned() };
        self.to[to].send(message.to_vec()).map_err(gone)
    }

    fn receive(&mut self, from: usize) -> Result<Vec<u8>, LinkError> {
        let gone = |_| LinkError { rank: from, reason: "has ended".to_owned() };
        self.from[from].recv().map_err(gone)
    }
}

/// Runs `lead` as the leader of a team of `size` threads; the others work until it ends.
///
/// # Panics
/// When a worker panics, or loses its leader before the leader says goodbye.
pub fn run<T>(size: usize, lead: impl FnOnce(&Team) -> T) -> T {
    let mut ends = Threads::team(size).into_iter();
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
