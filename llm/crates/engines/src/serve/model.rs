//! The model that is served: one computation at a time, weights that can be replaced, a pause between.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use grpo_lambda_decoder::model::{Decoder, ModelConfig, weights};
use tokio::sync::{Mutex, Semaphore, watch};

use super::error::ApiError;
use grpo_lambda_trainer::run::hold_directory;

/// The version of weights that nobody has named, as on vLLM.
const UNNAMED: &str = "default";

/// A model with who waits for it.
pub(super) struct ServedModel {
    shape: ModelConfig,
    decoder: Arc<Mutex<Decoder<f32>>>,
    version: watch::Sender<String>,
    paused: watch::Sender<bool>,
    /// Places of requests that wait or compute.
    pub(super) places: Semaphore,
    /// The place of the one request that may reload weights, whatever waits in the queue.
    pub(super) reload_place: Semaphore,
    /// One request is read, or one checkpoint, at a time: both take memory.
    preparing: Arc<Semaphore>,
    /// The directory from which weights may be read; `None` if they are never replaced.
    reload_from: Option<PathBuf>,
}

impl ServedModel {
    pub(super) fn new(decoder: Decoder<f32>, queue: usize, reload_from: Option<PathBuf>) -> Self {
        ServedModel {
            shape: decoder.config().clone(),
            decoder: Arc::new(Mutex::new(decoder)),
            version: watch::Sender::new(UNNAMED.to_owned()),
            paused: watch::Sender::new(false),
            places: Semaphore::new(queue),
            reload_place: Semaphore::new(1),
            preparing: Arc::new(Semaphore::new(1)),
            reload_from,
        }
    }

    /// Reads what a request brings, when its turn has come.
    pub(super) async fn prepare<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = Arc::clone(&self.preparing).acquire_owned().await;
        apart(move || {
            let _turn = turn;
            read()
        })
        .await
    }

    /// Computes with the model when its turn has come.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        compute: impl FnOnce(&Decoder<f32>) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        // It fails without a sender only, which is here.
        drop(self.paused.subscribe().wait_for(|paused| !paused).await);
        let decoder = Arc::clone(&self.decoder).lock_owned().await;
        apart(move || compute(&decoder)).await
    }

    /// Reads the weights of a checkpoint under the directory that the server was started with; those it has stay when that fails.
    pub(super) async fn reload(&self, path: String) -> Result<(), ApiError> {
        let allowed = self.reload_from.clone().ok_or_else(not_started_for_it)?;
        let shape = self.shape.clone();
        let read = move || {
            read_weights(Path::new(&path), &allowed, &shape).map_err(|problem| {
                ApiError::field("weights_path", format!("weights_path = {path}: {problem}"))
            })
        };
        let decoder = self.prepare(read).await?;
        *self.decoder.lock().await = decoder;
        Ok(())
    }

    /// Checks that clients may replace weights, and hence pause and name them.
    pub(super) fn check_reloads(&self) -> Result<(), ApiError> {
        self.reload_from.as_ref().map(drop).ok_or_else(not_started_for_it)
    }

    pub(super) fn pause(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    pub(super) fn is_paused(&self) -> bool {
        *self.paused.borrow()
    }

    pub(super) fn version(&self) -> String {
        self.version.borrow().clone()
    }

    pub(super) fn set_version(&self, version: &str) {
        self.version.send_replace(version.to_owned());
    }
}

/// The model of a checkpoint that lies under `allowed`, with every file of it, and has finite weights.
fn read_weights(path: &Path, allowed: &Path, shape: &ModelConfig) -> Result<Decoder<f32>, String> {
    let inside = |path: &Path| {
        let real = path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?;
        let problem = || format!("{} must lie under --reload-from {}", real.display(), allowed.display());
        real.starts_with(allowed).then_some(real.clone()).ok_or_else(problem)
    };
    let real = inside(path)?;
    for entry in std::fs::read_dir(&real).map_err(|e| e.to_string())? {
        inside(&entry.map_err(|e| e.to_string())?.path())?;
    }
    let _held = hold_directory(&real).map_err(|e| e.to_string())?;
    let parameters = weights::load(&real, shape).map_err(|e| e.to_string())?;
    for (name, tensor) in &parameters {
        if let Some(at) = tensor.data.iter().position(|x| !x.is_finite()) {
            let weight = tensor.data[at];
            return Err(format!(
                "tensor {name} has {weight} at element {at}; every weight must be a finite number"
            ));
        }
    }
    Decoder::new(shape.clone(), parameters).map_err(|e| e.to_string())
}

/// Works on a thread of its own, so that others are answered meanwhile.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| Err(ApiError::internal(e)))
}

fn not_started_for_it() -> ApiError {
    ApiError::new(404, "the server was started without --reload-from DIR, so its weights stay as they are")
}
