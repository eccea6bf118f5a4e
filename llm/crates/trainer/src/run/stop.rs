//! Signals that ask a run to end: it finishes its step and writes a checkpoint; a second signal ends it at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

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
