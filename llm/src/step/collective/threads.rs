//! Workers that are threads of one process.

use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Collective, CollectiveError, Shards, TreeSum};

/// Numbers that are added at a time: what a call holds beside its arguments is this much per worker.
const CHUNK: usize = 1 << 16;

/// One worker's side of a team of threads.
///
/// All calls use one primitive, a round: each worker contributes a part, and when all have contributed, each reads all parts. A worker that
/// fails, panics or returns before the others breaks the team: whoever waits for it, now or later, gets
/// [`CollectiveError::Failed`] with its rank. A worker that neither fails nor goes on is waited for.
#[derive(Debug)]
pub struct Threads {
    rank: usize,
    size: usize,
    team: Arc<Team>,
}

#[derive(Debug, Default)]
struct Team {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Rounds completed.
    rounds: u64,
    /// The contributions to this round, by rank.
    contributions: Vec<Option<Contribution>>,
    /// All contributions of the last round. The next round cannot complete before all workers have read them, because each must contribute
    /// first.
    completed: Arc<Vec<Contribution>>,
    /// The first failure, and its message.
    failed: Option<(usize, String)>,
    /// The first worker to leave; a failure only if another one waits for it.
    departed: Option<usize>,
}

impl State {
    fn broken(&mut self) -> Result<(), CollectiveError> {
        if let Some(rank) = self.departed {
            self.failed.get_or_insert_with(|| (rank, "it left while other workers waited for it".to_owned()));
        }
        match &self.failed {
            Some((rank, reason)) => Err(CollectiveError::Failed { rank: *rank, reason: reason.clone() }),
            None => Ok(()),
        }
    }
}

/// What a worker contributes to a round.
#[derive(Clone, Debug)]
struct Contribution {
    call: Call,
    numbers: Vec<f32>,
    rows: Vec<Vec<f64>>,
}

/// The call, which must be the same for all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    AllReduce { len: usize },
    Gather,
    Broadcast { root: usize, len: usize },
    Barrier,
}

impl Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::AllReduce { len } => write!(f, "all_reduce of {len} numbers"),
            Call::Gather => write!(f, "gather"),
            Call::Broadcast { root, len } => write!(f, "broadcast of {len} numbers from worker {root}"),
            Call::Barrier => write!(f, "barrier"),
        }
    }
}

impl Team {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first failure stays; the others follow from it.
    fn fail(&self, rank: usize, reason: &str) {
        self.lock().failed.get_or_insert_with(|| (rank, reason.to_owned()));
        self.changed.notify_all();
    }

    fn round(&self, rank: usize, part: Contribution) -> Result<Arc<Vec<Contribution>>, CollectiveError> {
        let mut state = self.lock();
        state.broken()?;
        let round = state.rounds;
        state.contributions[rank] = Some(part);
        if state.contributions.iter().all(Option::is_some) {
            state.completed = Arc::new(state.contributions.iter_mut().filter_map(Option::take).collect());
            state.rounds += 1;
            self.changed.notify_all();
        }
        while state.rounds == round {
            state.broken()?;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state.completed.clone())
    }
}

impl Threads {
    /// The sides of a team of `workers`, by rank. Each goes to a thread of its own; see [`run`].
    ///
    /// # Errors
    /// [`CollectiveError::Workers`].
    pub fn team(workers: usize) -> Result<Vec<Threads>, CollectiveError> {
        Shards::new(workers, workers)?;
        let state = State { contributions: vec![None; workers], ..State::default() };
        let team = Arc::new(Team { state: Mutex::new(state), changed: Condvar::new() });
        Ok((0..workers).map(|rank| Threads { rank, size: workers, team: team.clone() }).collect())
    }

    fn round(
        &self,
        call: Call,
        numbers: Vec<f32>,
        rows: Vec<Vec<f64>>,
    ) -> Result<Arc<Vec<Contribution>>, CollectiveError> {
        let completed = self.team.round(self.rank, Contribution { call, numbers, rows })?;
        match completed.iter().position(|part| part.call != completed[0].call) {
            None => Ok(completed),
            Some(rank) => {
                let (expected, found) = (completed[0].call.to_string(), completed[rank].call.to_string());
                Err(CollectiveError::Parted { rank, expected, found })
            }
        }
    }
}

impl Collective for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_reduce(&mut self, values: &mut [f32]) -> Result<(), CollectiveError> {
        let call = Call::AllReduce { len: values.len() };
        // A call without numbers is a call all the same: it must meet the others'.
        if values.is_empty() {
            self.round(call, Vec::new(), Vec::new())?;
        }
        let mut sum = TreeSum::default();
        for chunk in values.chunks_mut(CHUNK) {
            let completed = self.round(call, chunk.to_vec(), Vec::new())?;
            sum.clear();
            completed.iter().for_each(|part| sum.push(&part.numbers));
            if let Some(root) = sum.root() {
                chunk.copy_from_slice(root);
            }
        }
        Ok(())
    }

    fn gather(&mut self, rows: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, CollectiveError> {
        let completed = self.round(Call::Gather, Vec::new(), rows.to_vec())?;
        Ok(completed.iter().flat_map(|part| part.rows.iter().cloned()).collect())
    }

    fn broadcast(&mut self, root: usize, values: &mut [f32]) -> Result<(), CollectiveError> {
        if root >= self.size {
            return Err(CollectiveError::Root { root, workers: self.size });
        }
        let mine = if self.rank == root { values.to_vec() } else { Vec::new() };
        let completed = self.round(Call::Broadcast { root, len: values.len() }, mine, Vec::new())?;
        values.copy_from_slice(&completed[root].numbers);
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.round(Call::Barrier, Vec::new(), Vec::new()).map(drop)
    }

    fn abort(&mut self, reason: &str) {
        self.team.fail(self.rank, reason);
    }
}

impl Drop for Threads {
    /// Workers that wait for this one fail from now on.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.team.fail(self.rank, "it panicked");
        }
        self.team.lock().departed.get_or_insert(self.rank);
        self.team.changed.notify_all();
    }
}

/// A failed team: which worker failed first, and why.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("worker {rank} failed: {reason}")]
pub struct TeamFailure<E> {
    /// The worker that failed first.
    pub rank: usize,
    /// What it said, or how it panicked.
    pub reason: String,
    /// Its error; none when it panicked or returned before the others.
    pub error: Option<Box<E>>,
}

/// Runs `work` as a team of `workers` threads, one [`Threads`] each, and collects what they return, by rank.
///
/// Every worker ends: an error or a panic in one is an error in those that wait for it.
///
/// # Errors
/// [`TeamFailure`] with the failure that came first; of [`CollectiveError::Workers`] for a number of workers that is no power of two.
pub fn run<T: Send, E: Display + Send>(
    workers: usize,
    work: impl Fn(&mut Threads) -> Result<T, E> + Sync,
) -> Result<Vec<T>, TeamFailure<E>> {
    let team =
        Threads::team(workers).map_err(|e| TeamFailure { rank: 0, reason: e.to_string(), error: None })?;
    let shared = team.first().map(|t| t.team.clone()).unwrap_or_default();
    let one = |mut side: Threads| {
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut side)));
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                side.abort(&error.to_string());
                Err(Some(error))
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
                side.abort(&format!("it panicked: {text}"));
                Err(None)
            }
        }
    };
    let mut outcomes: Vec<Result<T, Option<E>>> = std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = team.into_iter().map(|side| scope.spawn(move || one(side))).collect();
        threads.into_iter().map(|t| t.join().unwrap_or(Err(None))).collect()
    });
    if outcomes.iter().all(Result::is_ok) {
        return Ok(outcomes.into_iter().filter_map(Result::ok).collect());
    }
    let (rank, reason) = shared.lock().failed.clone().unwrap_or_default();
    let error = std::mem::replace(&mut outcomes[rank], Err(None)).err().flatten();
    Err(TeamFailure { rank, reason, error: error.map(Box::new) })
}
