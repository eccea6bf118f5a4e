//! A checkpoint: its files, the manifest that lists them, and the locks under which it is read or removed.
//!
//! `manifest.json` says which run it belongs to, lists its files with sizes and checksums, and how long each log was, with its checksum, so
//! that a resumed run continues the logs exactly where the checkpoint left them. The manifest carries a checksum of itself.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use grpo_lambda_decoder::disk::{Disk, DiskError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::claim::RunId;
use super::digest::{self, Digest};
use super::{Result, RunError};

pub const MANIFEST: &str = "manifest.json";

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    run: RunId,
    step: u64,
    files: BTreeMap<String, Digest>,
    logs: BTreeMap<String, Digest>,
}

impl Manifest {
    /// The manifest in a directory; `None` if there is none, or another program's.
    fn read(disk: &Disk, directory: &Path) -> Result<Option<Manifest>> {
        let path = directory.join(MANIFEST);
        let Some(bytes) = disk.read(&path)? else { return Ok(None) };
        let is_sealed = |value: &Value| ["content", "crc32c"].iter().any(|field| value.get(field).is_some());
        match (digest::open(&bytes), serde_json::from_slice::<Value>(&bytes)) {
            (Ok(manifest), _) => Ok(Some(manifest)),
            (Err(_), Ok(value)) if !is_sealed(&value) => Ok(None),
            (Err(problem), _) => {
                let problem = format!("{problem}; restore it, or remove it to read the directory unchecked");
                Err(RunError::Damaged { path, problem })
            }
        }
    }
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

    /// The checkpoint that a directory is, or is a part of, as `reference` and `adapter` are; `None` without a manifest of this program.
    ///
    /// # Errors
    /// [`RunError`] if the manifest cannot be read, or is not as it was written.
    pub(super) fn around(disk: &Disk, directory: &Path) -> Result<Option<Checkpoint>> {
        let real = directory.canonicalize();
        let real = real.map_err(|source| DiskError { action: "open", path: directory.to_owned(), source })?;
        if let Some(manifest) = Manifest::read(disk, directory)? {
            return Ok(Some(Checkpoint::new(directory.to_owned(), manifest, disk)));
        }
        let (Some(above), Some(name)) = (real.parent(), real.file_name()) else { return Ok(None) };
        let holds = |manifest: &Manifest| manifest.files.keys().any(|file| Path::new(file).starts_with(name));
        let manifest = Manifest::read(disk, above)?.filter(holds);
        Ok(manifest.map(|manifest| Checkpoint::new(above.to_owned(), manifest, disk)))
    }

    /// Finds the checkpoint of `step` at `path`: every listed file must be there in its size. Contents are checked when they are read.
    pub fn find(disk: &Disk, path: &Path, step: u64) -> Result<Checkpoint, String> {
        let bytes = disk.read(&path.join(MANIFEST)).map_err(|e| e.to_string())?;
        let bytes = bytes.ok_or_else(|| format!("no {MANIFEST}"))?;
        let manifest: Manifest = digest::open(&bytes).map_err(|e| format!("{MANIFEST}: {e}"))?;
        if manifest.step != step {
            return Err(format!("{MANIFEST}: step = {}: must be {step}, as in the name", manifest.step));
        }
        for (name, entry) in &manifest.files {
            let is_inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
            let found = std::fs::metadata(path.join(name)).ok().filter(|_| is_inside);
            match found.map(|found| found.len()) {
                Some(bytes) if bytes == entry.bytes => {}
                Some(bytes) => return Err(format!("{name}: {bytes} bytes long, not {}", entry.bytes)),
                None => return Err(format!("{name}: missing")),
            }
        }
        Ok(Checkpoint::new(path.to_owned(), manifest, disk))
    }

    /// The run that wrote it.
    pub fn run(&self) -> &RunId {
        &self.manifest.run
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
    /// [`RunError`] if it is not in the checkpoint, cannot be read, or has changed since.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.path.join(name);
        let damaged = |problem: String| RunError::Damaged { path: path.clone(), problem };
        let entry =
            self.manifest.files.get(name).ok_or_else(|| damaged("not part of the checkpoint".to_owned()))?;
        let bytes = self.disk.read(&path)?.ok_or_else(|| damaged("missing".to_owned()))?;
        if *entry != Digest::new(&bytes) {
            return Err(damaged(CHANGED.to_owned()));
        }
        Ok(bytes)
    }

    /// Checks the contents of every file against what was written.
    ///
    /// # Errors
    /// [`RunError`] for the first that is missing, cannot be read, or has changed since.
    pub fn verify(&self) -> Result<()> {
        self.manifest.files.iter().try_for_each(|(name, entry)| {
            let path = self.path.join(name);
            match Digest::of_file(&self.disk, &path)? {
                Some(found) if found == *entry => Ok(()),
                Some(_) => Err(RunError::Damaged { path, problem: CHANGED.to_owned() }),
                None => Err(RunError::Damaged { path, problem: "missing".to_owned() }),
            }
        })
    }

    /// The digest of a log when it was written.
    ///
    /// # Errors
    /// [`RunError::Damaged`] where the manifest does not list it.
    pub(super) fn log(&self, name: &str) -> Result<Digest> {
        let path = self.path.join(MANIFEST);
        let problem = || format!("logs.{name}: missing; must be the length and the checksum of the log");
        let found = self.manifest.logs.get(name).copied();
        found.ok_or_else(|| RunError::Damaged { path, problem: problem() })
    }

    /// Locks the manifest for reading: while the lock lives the run does not remove the checkpoint. No file if the file system has no locks.
    ///
    /// # Errors
    /// If the checkpoint is going or has gone.
    pub(super) fn lock_for_reading(&self) -> Result<Option<File>, ()> {
        let manifest = self.path.join(MANIFEST);
        let file = File::open(&manifest).map_err(drop)?;
        let lock = match file.try_lock_shared() {
            Ok(()) => Some(file),
            Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => None,
            Err(_) => return Err(()),
        };
        // Locked too late, the file may be one that went in between.
        if manifest.exists() { Ok(lock) } else { Err(()) }
    }

    /// Locks the manifest for removing the checkpoint.
    ///
    /// # Errors
    /// If a reader holds it.
    pub(super) fn lock_for_removal(&self) -> Result<Option<File>, ()> {
        // Opened to write, because some network file systems lock no other file exclusively.
        let Ok(file) = self.disk.open_lock(&self.path.join(MANIFEST)) else { return Ok(None) };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(()),
            _ => Ok(Some(file)),
        }
    }
}

const CHANGED: &str = "its size or checksum is not what was written; restore it, or use another checkpoint";

/// Counts and digests the bytes that are written.
struct Checked<'a> {
    to: &'a mut dyn Write,
    entry: Digest,
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
    files: BTreeMap<String, Digest>,
}

impl CheckpointWriter {
    /// Files go into `directory`, which exists and is empty.
    pub fn new(disk: &Disk, directory: &Path) -> CheckpointWriter {
        CheckpointWriter { directory: directory.to_owned(), disk: disk.clone(), files: BTreeMap::new() }
    }

    /// Writes the manifest, after which the checkpoint is complete.
    pub fn complete(self, run: &RunId, step: u64, logs: BTreeMap<String, Digest>) -> Result<Manifest> {
        let manifest = Manifest { run: run.clone(), step, files: self.files, logs };
        self.disk.write(&self.directory.join(MANIFEST), &digest::seal(&manifest))?;
        self.disk.sync_path(&self.directory)?;
        Ok(manifest)
    }

    /// The disk to write with.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The temporary directory of the files, for writers that need a path; [`CheckpointWriter::adopt`] them afterwards.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes a file.
    pub fn file(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.disk.write(&self.directory.join(name), bytes)?;
        self.files.insert(name.to_owned(), Digest::new(bytes));
        Ok(())
    }

    /// Writes a file piece by piece.
    ///
    /// # Errors
    /// The errors of `fill`; [`RunError::Io`] if the disk refuses.
    pub fn stream<E: From<RunError>>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut entry = Digest::default();
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
    pub fn link(&mut self, from: &Checkpoint, name: &str) -> Result<bool> {
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
    pub fn adopt(&mut self, name: &str) -> Result<()> {
        let path = self.directory.join(name);
        let entry = Digest::of_file(&self.disk, &path)?
            .ok_or_else(|| RunError::Damaged { path: path.clone(), problem: "not written".to_owned() })?;
        self.disk.sync_path(&path)?;
        self.files.insert(name.to_owned(), entry);
        Ok(())
    }
}
