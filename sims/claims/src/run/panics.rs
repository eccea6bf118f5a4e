//! Experiments that panic.

use std::any::Any;
use std::panic;
use std::sync::{Arc, Mutex, PoisonError};

/// Keeps quiet about panics, which are shown on the experiment's line and not across the progress bar, and remembers where
/// the last one happened.
pub(super) struct Panics {
    place: Arc<Mutex<String>>,
}

impl Panics {
    pub(super) fn catch() -> Self {
        let place = Arc::new(Mutex::new(String::new()));
        let slot = Arc::clone(&place);
        panic::set_hook(Box::new(move |info| {
            let place = info.location().map_or(String::new(), |l| format!(" ({}:{})", l.file(), l.line()));
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = place;
        }));
        Panics { place }
    }

    /// A panic's message and place.
    pub(super) fn describe(&self, payload: &(dyn Any + Send)) -> String {
        let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        format!("panicked: {text}{}", self.place.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = panic::take_hook(); // back to the standard hook
        }
    }
}
