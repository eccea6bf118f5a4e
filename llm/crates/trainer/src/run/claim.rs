//! The owner of a directory: the process that locks it, the file that marks it, and the number of its run.
//!
//! Runs of the same configuration are distinguished by a random number, which each draws when it begins and writes into its directory and into
//! the manifest of every checkpoint. A checkpoint that was copied in from another run is thereby recognised, whatever its settings are.

use std::fmt;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::{Disk, DiskError, TEMPORARY};
use serde::{Deserialize, Serialize};

use super::{Result, RunError};

/// The file that the process holds locked that works in a directory.
pub const LOCK: &str = "lock";

/// The state of a directory before it is used.
pub(crate) enum Mark {
    /// With its mark.
    Marked,
    /// Free to be marked.
    Free,
    /// Without the mark, but not empty.
    Foreign,
}

/// Looks at `path`, which the file `mark` marks. A free directory may hold the lock, and files of the names `others`.
pub(crate) fn look(disk: &Disk, path: &Path, mark: &str, others: &[&str]) -> Result<Mark, DiskError> {
    if disk.read(&path.join(mark))?.is_some() {
        return Ok(Mark::Marked);
    }
    let is_ours = |name: &String| match name.strip_suffix(TEMPORARY) {
        Some(name) => name == mark || others.contains(&name),
        None => name == LOCK || others.contains(&name.as_str()),
    };
    let is_free = !path.exists() || disk.list(path)?.iter().all(is_ours);
    Ok(if is_free { Mark::Free } else { Mark::Foreign })
}

/// Takes the lock of the directory that `disk` is inside of; the system releases it when the process ends.
pub(crate) fn lock(disk: &Disk, directory: &Path) -> Result<DirectoryLock> {
    let path = directory.join(LOCK);
    let io = |action| {
        let path = path.clone();
        move |source| RunError::Io(DiskError { action, path, source })
    };
    let mut file = disk.open_lock(&path)?;
    // A process that was just killed may still hold the lock, so it is tried again for a moment.
    let mut patience = 50;
    loop {
        match file.try_lock() {
            // Someone may have removed the file before it was locked: then the lock keeps nobody out.
            Ok(()) if disk.is_at(&path, &file)? => break,
            Ok(()) => file = disk.open_lock(&path)?,
            Err(std::fs::TryLockError::WouldBlock) if patience > 0 => {
                patience -= 1;
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(io("read"))?;
                let holder = if holder.trim().is_empty() { "another process" } else { holder.trim() };
                return Err(RunError::Locked { path: directory.to_owned(), holder: holder.to_owned() });
            }
            Err(std::fs::TryLockError::Error(source)) => return Err(io("lock")(source)),
        }
    }
    let mut note = || {
        file.set_len(0)?;
        writeln!(file, "process {}", std::process::id())
    };
    note().map_err(io("write"))?;
    Ok(DirectoryLock { disk: disk.clone(), directory: directory.to_owned(), file })
}

/// A directory that this process works in, locked until the value or the process ends.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    disk: Disk,
    directory: PathBuf,
    file: File,
}

impl DirectoryLock {
    /// Refuses if the path now names another directory, or none: bytes written to a file without a name are lost without an error. Also if
    /// the lock was removed or replaced, which lets a second process in.
    pub(crate) fn check(&self) -> Result<()> {
        let is_ours = match self.disk.is_in_place() {
            Ok(is_ours) => is_ours,
            Err(e) => !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        };
        if !is_ours {
            return Err(RunError::Gone { path: self.directory.clone() });
        }
        let path = self.directory.join(LOCK);
        if self.disk.is_at(&path, &self.file)? { Ok(()) } else { Err(RunError::Unlocked { path }) }
    }
}

/// The file of a run directory with the number of the run.
pub const ID: &str = "id";

/// The number of a run, as 16 hexadecimal digits.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct RunId(String);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl RunId {
    /// A new one. The standard library seeds its hash tables from the system's random numbers.
    pub(super) fn random() -> RunId {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        hasher.write_u64(super::now().to_bits());
        RunId(format!("{:016x}", hasher.finish()))
    }
}

/// The number of the run at `run`; `None` if none is written.
///
/// # Errors
/// If the file cannot be read, or holds something else.
pub fn read_id(disk: &Disk, run: &Path) -> Result<Option<RunId>> {
    let path = run.join(ID);
    let Some(bytes) = disk.read(&path)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    let is_id = text.len() == 16 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if is_id {
        return Ok(Some(RunId(text)));
    }
    let problem = "must be the number of this run in 16 hexadecimal digits, as the manifests of its checkpoints have it";
    Err(RunError::Damaged { path, problem: problem.to_owned() })
}

/// Gives a new run its number.
pub(super) fn write_id(disk: &Disk, run: &Path) -> Result<()> {
    Ok(disk.replace(&run.join(ID), format!("{}\n", RunId::random()).as_bytes())?)
}
