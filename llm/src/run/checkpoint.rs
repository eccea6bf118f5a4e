//! A checkpoint: its files, and the manifest that says what they must be.
//!
//! `manifest.json` lists the files with sizes and checksums, and how long each log was, so that a resumed run continues the logs exactly
//! where the checkpoint left them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::Disk;
use serde::{Deserialize, Serialize};

use super::RunError;

const MANIFEST: &str = "manifest.json";

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct FileEntry {
    bytes: u64,
    crc32c: u32,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Manifest {
    step: u64,
    files: BTreeMap<String, FileEntry>,
    logs: BTreeMap<String, u64>,
}

/// A complete checkpoint.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    path: PathBuf,
    manifest: Manifest,
    disk: Disk,
}

impl Checkpoint {
    pub(super) fn new(path: PathBuf, manifest: Manifest, disk: &Disk) -> Checkpoint {
        Checkpoint { path, manifest, disk: disk.clone() }
    }

    /// The checkpoint of `step` at `path`, if it is complete: whether every listed file is there in its size. Contents are checked when they are read.
    pub(super) fn find(disk: &Disk, path: &Path, step: u64) -> Option<Checkpoint> {
        let bytes = disk.read(&path.join(MANIFEST)).ok().flatten()?;
        let manifest: Manifest = serde_json::from_slice(&bytes).ok()?;
        let is_whole = manifest.files.iter().all(|(name, entry)| {
            std::fs::metadata(path.join(name)).is_ok_and(|found| found.len() == entry.bytes)
        });
        (manifest.step == step && is_whole).then(|| Checkpoint::new(path.to_owned(), manifest, disk))
    }

    /// Steps done when it was written.
    pub fn step(&self) -> u64 {
        self.manifest.step
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of its files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.manifest.files.keys().map(String::as_str)
    }

    /// The contents of a file, checked against size and checksum.
    ///
    /// # Errors
    /// [`RunError`] when it is not in the checkpoint, cannot be read, or has changed since.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, RunError> {
        let path = self.path.join(name);
        let damaged = |problem: String| RunError::Damaged { path: path.clone(), problem };
        let entry =
            self.manifest.files.get(name).ok_or_else(|| damaged("not part of the checkpoint".to_owned()))?;
        let bytes = self.disk.read(&path)?.ok_or_else(|| damaged("missing".to_owned()))?;
        if *entry != describe(&bytes) {
            return Err(damaged(
                "its size or checksum is not what was written; without this checkpoint's directory the one before is used"
                    .to_owned(),
            ));
        }
        Ok(bytes)
    }

    /// Checks the contents of every file against what was written.
    ///
    /// # Errors
    /// [`RunError`] for the first that is missing, cannot be read, or has changed since.
    pub fn verify(&self) -> Result<(), RunError> {
        self.files().try_for_each(|name| self.read(name).map(drop))
    }

    pub(super) fn log_length(&self, name: &str) -> u64 {
        self.manifest.logs.get(name).copied().unwrap_or(0)
    }
}

fn describe(bytes: &[u8]) -> FileEntry {
    FileEntry { bytes: bytes.len() as u64, crc32c: crc32c::crc32c(bytes) }
}

/// Writes the files of a new checkpoint.
#[derive(Debug)]
pub struct CheckpointWriter {
    directory: PathBuf,
    disk: Disk,
    files: BTreeMap<String, FileEntry>,
}

impl CheckpointWriter {
    /// Files go into `directory`, which exists and is empty.
    pub(super) fn new(disk: &Disk, directory: &Path) -> CheckpointWriter {
        CheckpointWriter { directory: directory.to_owned(), disk: disk.clone(), files: BTreeMap::new() }
    }

    /// Writes the manifest, after which the checkpoint is complete.
    pub(super) fn complete(self, step: u64, logs: BTreeMap<String, u64>) -> Result<Manifest, RunError> {
        let manifest = Manifest { step, files: self.files, logs };
        let text = serde_json::to_string_pretty(&manifest).expect("a manifest can always be written");
        self.disk.write(&self.directory.join(MANIFEST), format!("{text}\n").as_bytes())?;
        self.disk.sync_path(&self.directory)?;
        Ok(manifest)
    }

    /// The temporary directory of the files, for writers that need a path; [`CheckpointWriter::adopt`] them afterwards.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes a file.
    ///
    /// # Errors
    /// [`RunError::Io`].
    pub fn file(&mut self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        self.disk.write(&self.directory.join(name), bytes)?;
        self.files.insert(name.to_owned(), describe(bytes));
        Ok(())
    }

    /// Makes a file that someone else wrote into [`CheckpointWriter::directory`] part of the checkpoint.
    ///
    /// # Errors
    /// [`RunError`] when it cannot be read back or flushed.
    pub fn adopt(&mut self, name: &str) -> Result<(), RunError> {
        let path = self.directory.join(name);
        let bytes = self
            .disk
            .read(&path)?
            .ok_or_else(|| RunError::Damaged { path: path.clone(), problem: "not written".to_owned() })?;
        self.disk.sync_path(&path)?;
        self.files.insert(name.to_owned(), describe(&bytes));
        Ok(())
    }
}
