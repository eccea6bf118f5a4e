//! The lock on a checkpoint's manifest: shared by who reads it while its run goes on, alone for the run that removes it.

use std::fs::{File, TryLockError};
use std::io;

use super::checkpoint::{Checkpoint, MANIFEST};

/// The lock under which a checkpoint is read: while it lives the run does not remove it. Without a file where the file system has no locks.
///
/// # Errors
/// When the checkpoint is going or has gone.
pub(super) fn for_reading(checkpoint: &Checkpoint) -> Result<Option<File>, ()> {
    let manifest = checkpoint.path().join(MANIFEST);
    let file = File::open(&manifest).map_err(drop)?;
    let lock = match file.try_lock_shared() {
        Ok(()) => Some(file),
        Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => None,
        Err(_) => return Err(()),
    };
    // Locked too late, the file may be one that went in between.
    if manifest.exists() { Ok(lock) } else { Err(()) }
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
