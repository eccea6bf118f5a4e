//! Signals that ask a run to end: it finishes its step and writes a checkpoint; a second signal ends it at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use super::progress::say;

/// The number of the first signal that came; 0 for none.
static CAME: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Begins to listen, once for the process. Where the system refuses, a signal ends the process at once, as it does without this.
pub fn listen() {
    let came = CAME.get_or_init(|| Arc::new(AtomicUsize::new(0)));
    static LISTENING: AtomicBool = AtomicBool::new(false);
    if LISTENING.swap(true, Ordering::SeqCst) {
        return;
    }
    let second = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the first signal arms what the second one meets.
        drop(flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&second)));
        drop(flag::register(signal, Arc::clone(&second)));
        drop(flag::register_usize(signal, Arc::clone(came), signal as usize));
    }
    if let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) {
        // Without a thread for it a signal has no answer, and the run ends at its next step all the same.
        let answer = move || {
            let first = signals.forever().next();
            let work = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let (Some(signal), Some(work)) = (first, work) {
                say(&work.answer(signal, work.began.elapsed()));
            }
        };
        drop(std::thread::Builder::new().spawn(answer));
    }
}

/// The work that ends before the run does.
#[derive(Clone, Debug)]
pub struct Work {
    /// In words, as in `RL step 19`.
    pub what: String,
    pub began: Instant,
    /// The time that work of its kind took.
    pub usual: Option<Duration>,
}

static UNDER_WAY: Mutex<Option<Work>> = Mutex::new(None);

/// Tells what is under way from now on, for the answer to the first signal.
pub fn begin(what: String, usual: Option<Duration>) {
    let work = Work { what, began: Instant::now(), usual };
    *UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
}

impl Work {
    pub fn answer(&self, signal: i32, since: Duration) -> String {
        let left = self.usual.map(|usual| usual.saturating_sub(since).as_secs_f64().ceil().max(1.0));
        let about = left.map_or(String::new(), |seconds| format!(", about {seconds} s"));
        let again = if signal == SIGINT { "Ctrl-C again" } else { "a second signal" };
        format!("\nfinishing {}{about}, then a checkpoint; {again} stops now", self.what)
    }
}

/// Takes the signal about a file beyond the limit on sizes (`ulimit -f`), which would end the process without a word: the write fails instead,
/// with an error that names the file.
pub fn outlive_file_limits() {
    drop(flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))));
}

/// The signal that asked for the end, if one did.
pub fn requested() -> Option<u8> {
    let came = CAME.get()?.load(Ordering::SeqCst);
    u8::try_from(came).ok().filter(|signal| *signal > 0)
}

/// The name of a signal, as in `SIGINT`.
pub fn name(signal: u8) -> &'static str {
    match i32::from(signal) {
        SIGINT => "SIGINT",
        SIGTERM => "SIGTERM",
        SIGHUP => "SIGHUP",
        _ => "a signal",
    }
}
