//! Work on untrusted files (templates, tokenizers, packed data), in bounded memory, time and stack.
//!
//! Libraries that read such files may loop, recurse, allocate without end or panic. [`run`] gives them a thread of their own with a deep stack
//! and counts its allocations. A thread over its memory or its time is abandoned: it sleeps at its next allocation until the
//! process ends, and the caller gets an error. A panic is not shown; it becomes an error too.

mod allocator;

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use allocator::Account;

/// Limits on memory and time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes held at any time, beside the input.
    pub memory: usize,
    /// Time from start to end; `None` if it grows with a data set of the user's.
    pub time: Option<Duration>,
}

/// The reason why work was stopped.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    #[error("it takes more than {} MiB of memory", .0 >> 20)]
    Memory(usize),
    #[error("it takes more than {} seconds", .0.as_secs())]
    Time(Duration),
    #[error("{0}")]
    Panic(String),
    #[error("no thread for it could be started: {0}")]
    Thread(std::io::Error),
}

/// Address space of the thread's stack; untouched pages cost nothing. It fits the deepest recursion that the limits on sources allow: an
/// expression in the largest template of [`crate::input::prompt`], or a value nested as deep as its steps allow.
const STACK: usize = 512 << 20;

/// Does `work` within `limits`.
///
/// # Errors
/// [`Stopped`].
pub fn run<T: Send + 'static>(
    limits: Limits,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stopped> {
    let account = Arc::new(Account::new(thread::current()));
    let (theirs, finished) = (account.clone(), Arc::new(AtomicBool::new(false)));
    let theirs_finished = finished.clone();
    let counted = move || {
        let done = allocator::counted(&theirs, limits.memory, || caught(work));
        theirs_finished.store(true, Ordering::Release);
        theirs.owner.unpark();
        done
    };
    let worker = thread::Builder::new().stack_size(STACK).spawn(counted).map_err(Stopped::Thread)?;
    let begun = Instant::now();
    loop {
        if finished.load(Ordering::Acquire) {
            return match worker.join() {
                Ok(done) => done.map_err(Stopped::Panic),
                Err(payload) => Err(Stopped::Panic(words(payload.as_ref()))),
            };
        }
        if account.is_exceeded() {
            return Err(Stopped::Memory(limits.memory));
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

    const SMALL: Limits = Limits { memory: 8 << 20, time: Some(Duration::from_secs(60)) };

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
        let limits = Limits { memory: 8 << 20, time: Some(Duration::from_millis(20)) };
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
        assert_eq!(run(SMALL, || depth(500_000)).expect("a deep stack"), 500_000);
    }
}
