//! A checkpoint: its files, and the manifest that says what they must be.
//!
//! `manifest.json` lists the files with sizes and checksums, and how long each log was, so that a resumed run continues the logs exactly
//! where the checkpoint left them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::Disk;
use serde::{Deserialize, Serialize};

use super::RunError;

const MANIFEST: &str = "manifest.json";

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
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
        if *entry != FileEntry::of(&bytes) {
            return Err(damaged(CHANGED.to_owned()));
        }
        Ok(bytes)
    }

    /// Checks the contents of every file against what was written.
    ///
    /// # Errors
    /// [`RunError`] for the first that is missing, cannot be read, or has changed since.
    pub fn verify(&self) -> Result<(), RunError> {
        self.manifest.files.iter().try_for_each(|(name, entry)| {
            let path = self.path.join(name);
            match FileEntry::of_file(&self.disk, &path)? {
                Some(found) if found == *entry => Ok(()),
                Some(_) => Err(RunError::Damaged { path, problem: CHANGED.to_owned() }),
                None => Err(RunError::Damaged { path, problem: "missing".to_owned() }),
            }
        })
    }

    pub(super) fn log_length(&self, name: &str) -> u64 {
        self.manifest.logs.get(name).copied().unwrap_or(0)
    }
}

const CHANGED: &str = "its size or checksum is not what was written; without this checkpoint's directory the one before is used";

impl FileEntry {
    fn of(bytes: &[u8]) -> Self {
        let mut entry = FileEntry::default();
        entry.add(bytes);
        entry
    }

    /// Of a file as it is; `None` if there is none.
    fn of_file(disk: &Disk, path: &Path) -> Result<Option<Self>, RunError> {
        let mut entry = FileEntry::default();
        Ok(disk.read_with(path, |piece| entry.add(piece))?.then_some(entry))
    }

    /// The next bytes of the file.
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
    }
}

/// Takes the size and the checksum of what is written.
struct Checked<'a> {
    to: &'a mut dyn Write,
    entry: FileEntry,
}

impl Write for Checked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.entry.add(&bytes[..written]);
        Ok(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
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
        self.files.insert(name.to_owned(), FileEntry::of(bytes));
        Ok(())
    }

    /// Writes a file piece by piece.
    ///
    /// # Errors
    /// Those of `fill`; [`RunError::Io`] where the disk refuses.
    pub fn stream<E: From<RunError>>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut entry = FileEntry::default();
        let refused = |e| E::from(RunError::Io(e));
        self.disk.write_with(&self.directory.join(name), refused, |to| {
            let mut checked = Checked { to, entry };
            fill(&mut checked)?;
            entry = checked.entry;
            Ok(())
        })?;
        self.files.insert(name.to_owned(), entry);
        Ok(())
    }

    /// Makes a file of another checkpoint part of this one without writing it again; `false` where it has none, or the file system
    /// gives no file a second name.
    ///
    /// # Errors
    /// [`RunError::Io`] when its directory cannot be made.
    pub fn link(&mut self, from: &Checkpoint, name: &str) -> Result<bool, RunError> {
        let (Some(entry), path) = (from.manifest.files.get(name), self.directory.join(name)) else {
            return Ok(false);
        };
        let directory = path.parent().unwrap_or(&self.directory);
        self.disk.create_directories(directory)?;
        if self.disk.link(&from.path.join(name), &path).is_err() {
            return Ok(false);
        }
        self.disk.sync_path(directory)?;
        self.files.insert(name.to_owned(), *entry);
        Ok(true)
    }

    /// Makes a file that someone else wrote into [`CheckpointWriter::directory`] part of the checkpoint.
    ///
    /// # Errors
    /// [`RunError`] when it cannot be read back or flushed.
    pub fn adopt(&mut self, name: &str) -> Result<(), RunError> {
        let path = self.directory.join(name);
        let entry = FileEntry::of_file(&self.disk, &path)?
            .ok_or_else(|| RunError::Damaged { path: path.clone(), problem: "not written".to_owned() })?;
        self.disk.sync_path(&path)?;
        self.files.insert(name.to_owned(), entry);
        Ok(())
    }
}
