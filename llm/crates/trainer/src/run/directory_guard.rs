//! The directory that a run began in, as long as it stands under its name.
//!
//! Logs stay open while a run is under way, and what is written to a file without a name is lost without an error.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::DiskError;

use super::RunError;

#[derive(Debug)]
pub(super) struct DirectoryGuard {
    path: PathBuf,
    /// Open, so that no other directory can take over its number.
    directory: File,
}

impl DirectoryGuard {
    pub(super) fn new(path: &Path) -> Result<DirectoryGuard, RunError> {
        let refused = |source| DiskError { action: "open", path: path.to_owned(), source };
        Ok(DirectoryGuard { path: path.to_owned(), directory: File::open(path).map_err(refused)? })
    }

    /// Refuses when the path names another directory now, or none.
    pub(super) fn check(&self) -> Result<(), RunError> {
        let is_ours = match std::fs::metadata(&self.path) {
            Ok(now) => self.directory.metadata().is_ok_and(|then| is_same(&then, &now)),
            Err(e) => !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        };
        if is_ours { Ok(()) } else { Err(RunError::Gone { path: self.path.clone() }) }
    }
}

#[cfg(unix)]
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same(_: &Metadata, b: &Metadata) -> bool {
    b.is_dir()
}
