//! Work on untrusted files (templates, tokenizers, packed data), in bounded memory, time and stack.
//!
//! Libraries that read such files may loop, recurse, allocate without end or panic. [`run`] gives them a thread of its own and counts, at every
//! call of the allocator, their bytes and the depth of their stack. A thread over one of its limits is abandoned: it sleeps at its next allocation
//! until the process ends, and the caller gets an error. A panic is not shown; it becomes an error too. Threads that finished wait for further
//! work, so that short work costs a hand-over and no new thread.

mod allocator;
pub mod limits;

use cpu_time::ProcessTime;
use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use allocator::large_blocks_return;
use allocator::{Account, Exceeded};

/// Limits on memory, stack and time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes held at any time, besides the input.
    pub memory: usize,
    /// Bytes of stack in use at any call of the allocator. The thread has `DEEPER` times as much, for recursion that calls it on the way back
    /// alone, such as giving up a nested value.
    pub stack: usize,
    /// Time from start to end in which this process computes, so that other processes stop nothing, or [`PATIENCE`] times that in all; `None` if it
    /// grows with a data set of the user's.
    pub time: Option<Duration>,
}

/// The reason why work was stopped.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    #[error("it takes more than {} MiB of memory", .0 >> 20)]
    Memory(usize),
    #[error("it takes more than {} MiB of stack: something in it contains itself, or is nested too deeply", .0 >> 20)]
    Stack(usize),
    #[error("it takes more than {} seconds", .0.as_secs())]
    Time(Duration),
    #[error("{0}")]
    Panic(String),
    #[error("no thread for it could be started: {0}")]
    Thread(std::io::Error),
}

/// Time that work may take, computing or waiting, over [`Limits::time`].
pub const PATIENCE: u32 = 60;

/// Address space for a thread's stack over [`Limits::stack`]; untouched pages cost nothing.
const DEEPER: usize = 8;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that waits for work.
struct Worker {
    stack: usize,
    jobs: Sender<Job>,
}

/// The threads that have no work.
static IDLE: Mutex<Vec<Worker>> = Mutex::new(Vec::new());

impl Worker {
    /// An idle thread with such a stack, else another one.
    fn hired(stack: usize) -> Result<Worker, Stopped> {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = idle.iter().position(|worker| worker.stack == stack) {
            return Ok(idle.swap_remove(at));
        }
        let (jobs, given) = channel::<Job>();
        let work = move || given.into_iter().for_each(|job| job());
        thread::Builder::new()
            .stack_size(stack.saturating_mul(DEEPER))
            .spawn(work)
            .map_err(Stopped::Thread)?;
        Ok(Worker { stack, jobs })
    }

    fn dismiss(self) {
        IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }
}

/// Does `work` within `limits`.
pub fn run<T: Send + 'static>(
    limits: Limits,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stopped> {
    let worker = Worker::hired(limits.stack)?;
    let account = Arc::new(Account::new(thread::current()));
    let (given, done) = channel();
    let theirs = account.clone();
    let job = move || {
        let result = allocator::counted(&theirs, (limits.memory, limits.stack), || caught(work));
        drop(given.send(result));
        theirs.owner.unpark();
    };
    drop(worker.jobs.send(Box::new(job)));
    let (begun, computed) = (Instant::now(), ProcessTime::now());
    loop {
        if let Ok(result) = done.try_recv() {
            worker.dismiss();
            return result.map_err(Stopped::Panic);
        }
        match account.exceeded() {
            Some(Exceeded::Memory) => return Err(Stopped::Memory(limits.memory)),
            Some(Exceeded::Stack) => return Err(Stopped::Stack(limits.stack)),
            None => {}
        }
        let passed = begun.elapsed();
        let spent = passed.min(computed.elapsed()).max(passed / PATIENCE);
        match limits.time.map(|time| (time, time.saturating_sub(spent))) {
            Some((time, Duration::ZERO)) => {
                account.abandon();
                return Err(Stopped::Time(time));
            }
            Some((_, left)) => thread::park_timeout(left),
            None => thread::park(),
        }
    }
}

/// Does `work` within [`run`]; also the bytes that are still allocated after it, its result included.
pub fn kept<T>(work: impl FnOnce() -> T) -> (T, isize) {
    let before = allocator::left();
    let done = work();
    (done, before.saturating_sub(allocator::left()))
}

/// Does short `work` in this thread; a panic is an error as in [`run`].
pub fn run_here<T>(work: impl FnOnce() -> T) -> Result<T, Stopped> {
    caught(work).map_err(Stopped::Panic)
}

thread_local! {
    /// True if panics of this thread are caught, and so not printed.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Does `work`; the error is the message of a panic.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                others(info);
            }
        }));
    });
    QUIET.set(true);
    // Nothing half done outlives the work.
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    QUIET.set(false);
    done.map_err(|payload| words(payload.as_ref()))
}

fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("its lengths do not fit");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
