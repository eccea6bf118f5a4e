//! Checkpoints that are read while their run goes on: a reader's shared lock on the manifest keeps the run from removing it.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::RunError;
use super::checkpoint::{Checkpoint, MANIFEST};
use super::checkpoints::{best, latest};

/// A checkpoint that its run does not remove as long as this value lives.
#[derive(Debug)]
pub struct HeldCheckpoint {
    checkpoint: Checkpoint,
    /// None where the file system has no locks.
    _lock: Option<File>,
}

impl HeldCheckpoint {
    pub fn path(&self) -> &Path {
        self.checkpoint.path()
    }

    /// Checks the contents of every file against what was written.
    ///
    /// # Errors
    /// As [`Checkpoint::verify`].
    pub fn verify(&self) -> Result<(), RunError> {
        self.checkpoint.verify()
    }
}

/// How often a reader looks for a checkpoint that is not about to go, and how long it waits in between.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// The latest complete checkpoint of the run at `path`, held.
///
/// # Errors
/// As [`latest`].
pub fn hold_latest(path: &Path) -> Result<Option<HeldCheckpoint>, RunError> {
    hold(|| latest(path))
}

/// The checkpoint of the best evaluation of the run at `path`, held; `None` where the run keeps none.
///
/// # Errors
/// As [`best`].
pub fn hold_best(path: &Path) -> Result<Option<HeldCheckpoint>, RunError> {
    hold(|| best(path))
}

/// What `find` finds, held.
fn hold(find: impl Fn() -> Result<Option<Checkpoint>, RunError>) -> Result<Option<HeldCheckpoint>, RunError> {
    for _ in 0..TRIES {
        let Some(checkpoint) = find()? else { return Ok(None) };
        let manifest = checkpoint.path().join(MANIFEST);
        let lock = match File::open(&manifest).map(|file| (file.try_lock_shared(), file)) {
            Ok((Ok(()), file)) => Some(file),
            Ok((Err(TryLockError::Error(e)), _)) if e.kind() == io::ErrorKind::Unsupported => None,
            // It is going, or has gone: there is a newer one.
            _ => {
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        // Locked too late, the file may be one that went in between.
        if manifest.exists() {
            return Ok(Some(HeldCheckpoint { checkpoint, _lock: lock }));
        }
    }
    Ok(find()?.map(|checkpoint| HeldCheckpoint { checkpoint, _lock: None }))
}

/// The lock under which a run may remove one of its checkpoints.
///
/// # Errors
/// When a reader holds it.
pub(super) fn for_removal(checkpoint: &Checkpoint) -> Result<Option<File>, ()> {
    let manifest = checkpoint.path().join(MANIFEST);
    // Opened to write, because some network file systems lock no other file exclusively.
    let Ok(file) = File::options().read(true).append(true).open(manifest) else { return Ok(None) };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(()),
        _ => Ok(Some(file)),
    }
}
