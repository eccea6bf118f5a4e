//! Work on untrusted files (templates, tokenizers, packed data), in bounded memory, time and stack.
//!
//! Libraries that read such files may loop, recurse, allocate without end or panic. [`run`] gives them a thread of its own and counts, at every
//! call of the allocator, their bytes and the depth of their stack. A thread over one of its limits is abandoned: it sleeps at its next allocation
//! until the process ends, and the caller gets an error. A panic is not shown; it becomes an error too. Threads that finished wait for further
//! work, so that short work costs a hand-over and no new thread.

mod allocator;
pub mod limits;

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use allocator::{Account, Exceeded};

/// Limits on memory, stack and time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes held at any time, beside the input.
    pub memory: usize,
    /// Bytes of stack in use at any call of the allocator. The thread has `DEEPER` times as much, for recursion that calls it on the way back
    /// alone, such as giving up a nested value.
    pub stack: usize,
    /// Time from start to end; `None` if it grows with a data set of the user's.
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
///
/// # Errors
/// [`Stopped`].
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
    let begun = Instant::now();
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
        match limits.time.map(|time| (time, time.saturating_sub(begun.elapsed()))) {
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
///
/// # Errors
/// [`Stopped::Panic`].
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

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Limits = Limits { memory: 8 << 20, stack: 1 << 20, time: Some(Duration::from_secs(60)) };

    #[test]
    fn work_within_its_limits_returns_and_what_it_frees_does_not_count() {
        let sum = run(SMALL, || {
            (0..64u64).map(|i| std::hint::black_box(vec![i; 1 << 18]).iter().sum::<u64>()).sum::<u64>()
        });
        assert_eq!(sum.expect("2 MiB at a time"), (1 << 18) * 63 * 32);
    }

    #[test]
    fn too_much_memory_is_refused_at_once_or_bit_by_bit() {
        let at_once = run(SMALL, || std::hint::black_box(vec![0u8; 1 << 40]).len());
        assert!(matches!(at_once, Err(Stopped::Memory(_))), "{at_once:?}");
        let doubled = run(SMALL, || {
            let mut text = "ab".to_owned();
            loop {
                text = text.repeat(2);
                std::hint::black_box(&text);
            }
        });
        let doubled: Result<String, Stopped> = doubled;
        assert_eq!(doubled.expect_err("endless").to_string(), "it takes more than 8 MiB of memory");
        let grown = run(SMALL, || {
            let mut bytes = Vec::new();
            while bytes.len() < 1 << 30 {
                bytes.push(std::hint::black_box(1u8));
            }
        });
        assert!(matches!(grown, Err(Stopped::Memory(_))), "{grown:?}");
    }

    #[test]
    fn too_much_time_is_refused() {
        let limits = Limits { time: Some(Duration::from_millis(20)), ..SMALL };
        let stopped = run(limits, || {
            loop {
                drop(std::hint::black_box(Box::new(1)));
            }
        });
        let stopped: Result<(), Stopped> = stopped;
        assert!(matches!(stopped, Err(Stopped::Time(_))), "{stopped:?}");
    }

    #[test]
    fn a_panic_is_an_error_on_one_line_and_a_deep_recursion_none() {
        let stopped = run(SMALL, || panic!("two\n  lines"));
        let stopped: Result<(), Stopped> = stopped;
        assert_eq!(stopped.expect_err("panics").to_string(), "two lines");
        fn depth(n: u32) -> u32 {
            let room = std::hint::black_box([n; 16]);
            if n == 0 { 0 } else { depth(n - 1) + room[0] / n }
        }
        let deep = Limits { stack: 64 << 20, ..SMALL };
        assert_eq!(run(deep, || depth(500_000)).expect("a deep stack"), 500_000);
        fn endless(n: usize) -> usize {
            let inner = std::hint::black_box(Box::new(n));
            if *inner == usize::MAX { 0 } else { endless(*inner + 1) + *inner }
        }
        for _ in 0..3 {
            let stopped = run(SMALL, || endless(0)).expect_err("endless");
            assert!(stopped.to_string().starts_with("it takes more than 1 MiB of stack"), "{stopped}");
        }
    }

    #[test]
    fn what_stays_allocated_is_counted() {
        for bytes in [0usize, 1, 1 << 20] {
            let left = run(SMALL, move || kept(|| (drop(vec![0u8; 3 << 20]), vec![1u8; bytes])).1);
            assert_eq!(left.expect("within its limits"), bytes as isize);
        }
    }

    #[test]
    fn finished_threads_are_used_again() {
        let stack = 3 << 20;
        let name = || run(Limits { stack, ..SMALL }, || thread::current().id()).expect("short");
        assert_eq!(name(), name());
    }
}
