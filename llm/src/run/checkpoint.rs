//! Checkpoints: directories that exist whole or not at all.
//!
//! `checkpoints/step-00000020/` is written under a name that starts with a dot, every file flushed, and renamed when it is complete. Its
//! `manifest.json` lists its files with sizes and checksums, and how long each log was, so that a resumed run continues the
//! logs exactly where the checkpoint left them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::Disk;
use serde::{Deserialize, Serialize};

use super::RunError;

const MANIFEST: &str = "manifest.json";
const PREFIX: &str = "step-";

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct FileEntry {
    bytes: u64,
    crc32c: u32,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct Manifest {
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
    /// Steps done when it was written.
    pub fn step(&self) -> u64 {
        self.manifest.step
    }

    /// Its directory.
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

    /// Whether every listed file is there in its size; contents are checked when they are read.
    fn is_whole(&self) -> bool {
        self.manifest.files.iter().all(|(name, entry)| {
            std::fs::metadata(self.path.join(name)).is_ok_and(|found| found.len() == entry.bytes)
        })
    }
}

fn describe(bytes: &[u8]) -> FileEntry {
    FileEntry { bytes: bytes.len() as u64, crc32c: crc32c::crc32c(bytes) }
}

/// Takes the files of a checkpoint in the making.
#[derive(Debug)]
pub struct CheckpointWriter {
    directory: PathBuf,
    disk: Disk,
    files: BTreeMap<String, FileEntry>,
}

impl CheckpointWriter {
    /// Where the files go for now, for writers that need a path; [`CheckpointWriter::adopt`] them afterwards.
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

/// The directory of all checkpoints of a run.
#[derive(Debug)]
pub(super) struct Checkpoints {
    directory: PathBuf,
    keep: usize,
    disk: Disk,
}

impl Checkpoints {
    /// Opens the directory and clears away what a killed process left half written or half removed.
    pub(super) fn open(disk: &Disk, run: &Path, keep: usize) -> Result<Checkpoints, RunError> {
        let directory = run.join("checkpoints");
        disk.create_directories(&directory)?;
        let checkpoints = Checkpoints { directory, keep, disk: disk.clone() };
        checkpoints.clear()?;
        checkpoints.prune()?; // it may have died between writing one and removing another
        Ok(checkpoints)
    }

    fn clear(&self) -> Result<(), RunError> {
        for name in self.disk.list(&self.directory)?.iter().filter(|name| name.starts_with('.')) {
            self.disk.remove_directory(&self.directory.join(name))?;
        }
        Ok(())
    }

    /// Complete checkpoints, oldest first, and the paths of damaged ones.
    pub(super) fn list(&self) -> Result<(Vec<Checkpoint>, Vec<PathBuf>), RunError> {
        list(&self.disk, &self.directory)
    }

    /// Writes the checkpoint of `step`, then removes those beyond the number to keep. Refused, it leaves nothing of its own.
    pub(super) fn save<E: From<RunError>>(
        &self,
        step: u64,
        logs: BTreeMap<String, u64>,
        fill: impl FnOnce(&mut CheckpointWriter) -> Result<(), E>,
    ) -> Result<Checkpoint, E> {
        self.clear()?;
        let name = format!("{PREFIX}{step:08}");
        let temporary = self.directory.join(format!(".new-{name}"));
        let manifest = self.write(&temporary, step, logs, fill).inspect_err(|_| {
            // A full disk gets its space back; what stopped the writing is the error to tell.
            drop(self.disk.remove_directory(&temporary));
        })?;
        Ok(self.publish(&name, &temporary, manifest)?)
    }

    /// The files of a checkpoint, its manifest last.
    fn write<E: From<RunError>>(
        &self,
        temporary: &Path,
        step: u64,
        logs: BTreeMap<String, u64>,
        fill: impl FnOnce(&mut CheckpointWriter) -> Result<(), E>,
    ) -> Result<Manifest, E> {
        let io = |e| E::from(RunError::Io(e));
        self.disk.create_directories(temporary).map_err(io)?;
        let mut writer = CheckpointWriter {
            directory: temporary.to_owned(),
            disk: self.disk.clone(),
            files: BTreeMap::new(),
        };
        fill(&mut writer)?;
        let manifest = Manifest { step, files: writer.files, logs };
        let text = serde_json::to_string_pretty(&manifest).expect("a manifest can always be written");
        self.disk.write(&temporary.join(MANIFEST), format!("{text}\n").as_bytes()).map_err(io)?;
        self.disk.sync_path(temporary).map_err(io)?;
        Ok(manifest)
    }

    /// Gives a written checkpoint its name, in one operation, and removes those beyond the number to keep.
    fn publish(&self, name: &str, temporary: &Path, manifest: Manifest) -> Result<Checkpoint, RunError> {
        let path = self.directory.join(name);
        if path.exists() {
            self.discard(name)?; // a damaged one, or this step is done again after one was
        }
        self.disk.rename(temporary, &path)?;
        self.disk.sync_path(&self.directory)?;
        self.prune()?;
        Ok(Checkpoint { path, manifest, disk: self.disk.clone() })
    }

    /// Removes the oldest complete checkpoints beyond the number to keep.
    fn prune(&self) -> Result<(), RunError> {
        let (complete, _) = self.list()?;
        for old in &complete[..complete.len().saturating_sub(self.keep.max(1))] {
            self.discard(&format!("{PREFIX}{:08}", old.step()))?;
        }
        Ok(())
    }

    /// Out of the list first, in one operation; then away.
    fn discard(&self, name: &str) -> Result<(), RunError> {
        let doomed = self.directory.join(format!(".old-{name}"));
        self.disk.rename(&self.directory.join(name), &doomed)?;
        Ok(self.disk.remove_directory(&doomed)?)
    }
}

fn list(disk: &Disk, directory: &Path) -> Result<(Vec<Checkpoint>, Vec<PathBuf>), RunError> {
    let (mut complete, mut damaged) = (Vec::new(), Vec::new());
    for name in disk.list(directory)? {
        let Some(step) = name.strip_prefix(PREFIX).and_then(|digits| digits.parse::<u64>().ok()) else {
            continue;
        };
        let path = directory.join(&name);
        let manifest = disk.read(&path.join(MANIFEST)).ok().flatten();
        let manifest = manifest.and_then(|bytes| serde_json::from_slice::<Manifest>(&bytes).ok());
        let checkpoint =
            manifest.map(|manifest| Checkpoint { path: path.clone(), manifest, disk: disk.clone() });
        match checkpoint {
            Some(checkpoint) if checkpoint.step() == step && checkpoint.is_whole() => {
                complete.push(checkpoint)
            }
            _ => damaged.push(path),
        }
    }
    complete.sort_by_key(Checkpoint::step);
    Ok((complete, damaged))
}

/// The latest complete checkpoint of the run at `path`, without opening the run: for generation, scoring and plots.
///
/// # Errors
/// [`RunError::Io`] when the directory cannot be listed.
pub fn latest(path: &Path) -> Result<Option<Checkpoint>, RunError> {
    Ok(list(&Disk::default(), &path.join("checkpoints"))?.0.pop())
}
