//! The model that is served: one computation at a time, weights that can be replaced, a pause between.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use grpo_lambda_decoder::model::{Decoder, ModelConfig, weights};

use super::error::ApiError;
use grpo_lambda_trainer::run::hold_directory;

/// The version of weights that nobody has named, as on vLLM.
const UNNAMED: &str = "default";

/// A model with who waits for it.
pub(super) struct ServedModel {
    shape: ModelConfig,
    decoder: Mutex<Decoder<f32>>,
    state: Mutex<State>,
    resumed: Condvar,
    /// Requests that wait or compute.
    busy: AtomicUsize,
    /// The most of them.
    queue: usize,
    /// The directory from which weights may be read; `None` if they are never replaced.
    reload_from: Option<PathBuf>,
}

struct State {
    paused: bool,
    version: String,
}

/// A place in the queue, given back when it is dropped.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ServedModel {
    pub(super) fn new(decoder: Decoder<f32>, queue: usize, reload_from: Option<PathBuf>) -> Self {
        ServedModel {
            shape: decoder.config().clone(),
            decoder: Mutex::new(decoder),
            state: Mutex::new(State { paused: false, version: UNNAMED.to_owned() }),
            resumed: Condvar::new(),
            busy: AtomicUsize::new(0),
            queue,
            reload_from,
        }
    }

    /// Computes with the model when its turn has come.
    pub(super) fn with<T>(
        &self,
        compute: impl FnOnce(&Decoder<f32>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let before = self.busy.fetch_add(1, Ordering::SeqCst);
        let _place = Place(&self.busy);
        if before >= self.queue {
            return Err(ApiError::new(
                429,
                format!("{before} requests wait already (--queue); ask again later"),
            ));
        }
        let state = self.state();
        let running = self.resumed.wait_while(state, |state| state.paused);
        drop(running.unwrap_or_else(PoisonError::into_inner));
        compute(&lock(&self.decoder))
    }

    /// Reads the weights of a checkpoint under the directory that the server was started with; those it has stay when that fails.
    pub(super) fn reload(&self, path: &str) -> Result<(), ApiError> {
        let allowed = self.reload_from.as_ref().ok_or_else(not_started_for_it)?;
        let refused =
            |problem: String| ApiError::field("weights_path", format!("weights_path = {path}: {problem}"));
        let real = Path::new(path).canonicalize().map_err(|e| refused(e.to_string()))?;
        if !real.starts_with(allowed) {
            return Err(refused(format!("must lie under --reload-from {}", allowed.display())));
        }
        let _held = hold_directory(&real).map_err(|e| refused(e.to_string()))?;
        let parameters = weights::load(&real, &self.shape).map_err(|e| refused(e.to_string()))?;
        let decoder = Decoder::new(self.shape.clone(), parameters).map_err(|e| refused(e.to_string()))?;
        *lock(&self.decoder) = decoder;
        Ok(())
    }

    /// Checks that clients may replace weights, and hence pause and name them.
    pub(super) fn check_reloads(&self) -> Result<(), ApiError> {
        self.reload_from.as_ref().map(drop).ok_or_else(not_started_for_it)
    }

    pub(super) fn pause(&self, paused: bool) {
        self.state().paused = paused;
        self.resumed.notify_all();
    }

    pub(super) fn is_paused(&self) -> bool {
        self.state().paused
    }

    pub(super) fn version(&self) -> String {
        self.state().version.clone()
    }

    pub(super) fn set_version(&self, version: &str) {
        version.clone_into(&mut self.state().version);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// A panic elsewhere left nothing half-done: both are replaced as a whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_started_for_it() -> ApiError {
    ApiError::new(404, "the server was started without --reload-from DIR, so its weights stay as they are")
}
