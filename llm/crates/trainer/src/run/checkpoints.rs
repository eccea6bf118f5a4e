//! The directory of a run's checkpoints, each of which exists whole or not at all.
//!
//! `step-00000020/` is written as `.new-step-00000020`, every file flushed, and renamed when it is complete; one that goes is renamed to
//! `.old-step-00000020` first, and gets its name back if it was the newest and nothing took its place. Directories of these names are this
//! program's. Whatever else stands here is someone else's and is left alone, and so is a `step-N` that is a link: it is read, but neither
//! removed nor emptied.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::{Disk, DiskError};

use super::checkpoint::{Checkpoint, CheckpointWriter, MANIFEST, Manifest};
use super::claim::{self, RunId};
use super::digest::Digest;
use super::{Result, RunError};
use crate::run::progress::say;

pub(super) const COMPLETE: &str = "step-";
const NEW: &str = ".new-step-";
const OLD: &str = ".old-step-";
const ASIDE: &str = "aside-step-";

/// Removes a directory; a test puts one here that fails.
pub(super) type Removal = fn(&Disk, &Path) -> Result<(), DiskError>;

#[derive(Debug)]
pub struct Checkpoints {
    directory: PathBuf,
    id: RunId,
    keep: usize,
    disk: Disk,
    removal: Removal,
    /// The paths that could not be removed and were warned of, once each.
    pub reported: BTreeSet<PathBuf>,
}

impl Checkpoints {
    /// Opens the directory and removes what a killed process left incomplete.
    pub fn open(disk: &Disk, run: &Path, id: &RunId, keep: usize) -> Result<Checkpoints> {
        Self::open_with(disk, (run, id), keep, Disk::remove)
    }

    pub fn open_with(
        disk: &Disk,
        (run, id): (&Path, &RunId),
        keep: usize,
        removal: Removal,
    ) -> Result<Checkpoints> {
        let directory = run.join("checkpoints");
        disk.create_directories(&directory)?;
        let (id, disk, reported) = (id.clone(), disk.clone(), BTreeSet::new());
        let mut checkpoints = Checkpoints { directory, id, keep, disk, removal, reported };
        checkpoints.clear();
        Ok(checkpoints)
    }

    /// Lists the checkpoints.
    pub fn list(&self) -> Result<Listed> {
        list(&self.disk, &self.directory, Some(&self.id))
    }

    /// Writes the checkpoint of `step`. On failure it leaves no files of its own.
    pub fn save<E: From<RunError>>(
        &mut self,
        step: u64,
        logs: BTreeMap<String, Digest>,
        fill: impl FnOnce(&mut CheckpointWriter) -> Result<(), E>,
    ) -> Result<Checkpoint, E> {
        self.clear();
        let temporary = self.free(NEW, step);
        let manifest = self.write(&temporary, step, logs, fill).inspect_err(|_| {
            // Frees the space on a full disk; the error that stopped the write is the one to report.
            drop(self.disk.remove(&temporary));
        })?;
        Ok(self.publish(step, &temporary, manifest)?)
    }

    /// The files of a checkpoint, its manifest last.
    fn write<E: From<RunError>>(
        &self,
        temporary: &Path,
        step: u64,
        logs: BTreeMap<String, Digest>,
        fill: impl FnOnce(&mut CheckpointWriter) -> Result<(), E>,
    ) -> Result<Manifest, E> {
        self.disk.create_directory(temporary).map_err(RunError::Io)?;
        let mut writer = CheckpointWriter::new(&self.disk, temporary);
        fill(&mut writer)?;
        Ok(writer.complete(&self.id, step, logs)?)
    }

    /// Gives a written checkpoint its name, in one operation. The one that had it is removed afterwards, or gets it back.
    fn publish(&mut self, step: u64, temporary: &Path, manifest: Manifest) -> Result<Checkpoint> {
        let path = self.directory.join(name(COMPLETE, step));
        let former = self.make_way(&path, step)?;
        self.disk.rename(temporary, &path).inspect_err(|_| {
            // If this is refused too, the next process does it: see `put_back`.
            if let Some(former) = &former {
                drop(self.disk.rename(former, &path));
            }
        })?;
        self.disk.sync_path(&self.directory)?;
        if let Some(former) = former {
            self.remove(&former);
        }
        Ok(Checkpoint::new(path, manifest, &self.disk))
    }

    /// Frees the name of a checkpoint: a damaged one goes, and so does the one of a step that is done again after one was, by the name that is
    /// returned. A link or a file, which this program never makes, is not its to remove, nor is the checkpoint of another run.
    fn make_way(&self, path: &Path, step: u64) -> Result<Option<PathBuf>> {
        match std::fs::symlink_metadata(path) {
            Err(_) => Ok(None), // what else is wrong, the rename will tell
            Ok(found) if found.is_dir() && !self.is_foreign(path, step) => Ok(Some(self.put_aside(step)?)),
            Ok(_) => {
                let aside = self.free(ASIDE, step);
                self.disk.rename(path, &aside)?;
                say(&format!(
                    "warning: {} is no checkpoint of this run's; it was put aside as {}",
                    path.display(),
                    aside.display()
                ));
                Ok(None)
            }
        }
    }

    fn is_foreign(&self, path: &Path, step: u64) -> bool {
        Checkpoint::find(&self.disk, path, step).is_ok_and(|found| *found.run() != self.id)
    }

    /// Removes the oldest complete checkpoints beyond the number to keep, but never the `best`, as far as it can: the new one is safe, so the
    /// run goes on.
    pub fn prune(&mut self, best: Option<u64>) {
        let complete = match self.list() {
            Ok(listed) => listed.complete,
            Err(e) => return self.tell(&self.directory.clone(), &e),
        };
        let own: Vec<&Checkpoint> = complete.iter().filter(|c| is_directory(c.path())).collect();
        for old in &own[..own.len().saturating_sub(self.keep.max(1))] {
            if Some(old.step()) == best {
                continue;
            }
            // A reader holds it; it goes with the next one. The lock keeps new readers away until it is gone.
            let Ok(_ours) = old.lock_for_removal() else { continue };
            match self.put_aside(old.step()) {
                Ok(doomed) => self.remove(&doomed),
                Err(e) => self.tell(old.path(), &e),
            }
        }
    }

    /// Takes a checkpoint's name from it, in one operation; the name that it has then.
    fn put_aside(&self, step: u64) -> Result<PathBuf, DiskError> {
        let doomed = self.free(OLD, step);
        self.disk.rename(&self.directory.join(name(COMPLETE, step)), &doomed)?;
        Ok(doomed)
    }

    /// Removes directories with temporary names.
    fn clear(&mut self) {
        let names = match self.disk.list(&self.directory) {
            Ok(names) => names,
            Err(e) => return self.tell(&self.directory.clone(), &e),
        };
        let paths = names.iter().filter(|name| is_temporary(name)).map(|name| self.directory.join(name));
        for path in paths.filter(|path| is_directory(path)).collect::<Vec<_>>() {
            self.remove(&path);
        }
    }

    fn remove(&mut self, path: &Path) {
        if let Err(e) = (self.removal)(&self.disk, path) {
            self.tell(path, &e);
        }
    }

    fn tell(&mut self, path: &Path, problem: &dyn std::fmt::Display) {
        if self.reported.insert(path.to_owned()) {
            say(&format!(
                "warning: an old checkpoint still takes up space: {problem}; the run continues and tries again at the next checkpoint"
            ));
        }
    }

    /// A name for `step` that nothing has: the plain one, unless what had it before could not be removed.
    fn free(&self, prefix: &str, step: u64) -> PathBuf {
        let plain = name(prefix, step);
        let others = (2u64..).map(|n| format!("{plain}-{n}"));
        let mut paths = std::iter::once(plain.clone()).chain(others).map(|name| self.directory.join(name));
        paths.find(|path| std::fs::symlink_metadata(path).is_err()).unwrap_or(self.directory.join(plain))
    }
}

pub(super) fn name(prefix: &str, step: u64) -> String {
    format!("{prefix}{step:08}")
}

/// The step in a name with this prefix, where it is spelt as this program does.
fn step(prefix: &str, found: &str) -> Option<u64> {
    let step = found.strip_prefix(prefix)?.parse().ok()?;
    (name(prefix, step) == found).then_some(step)
}

/// True for the names that [`Checkpoints`] gives to half-written and half-removed directories.
fn is_temporary(name: &str) -> bool {
    [NEW, OLD].iter().any(|prefix| of_temporary(prefix, name).is_some())
}

/// The step in a name that [`Checkpoints::free`] gives with this prefix.
fn of_temporary(prefix: &str, found: &str) -> Option<u64> {
    let numbered = || found.rsplit_once('-').filter(|(_, n)| n.parse::<u64>().is_ok());
    step(prefix, found).or_else(|| step(prefix, numbered()?.0))
}

/// True for a directory, and not for a link to one.
fn is_directory(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// The checkpoints in a directory.
#[derive(Debug, Default)]
pub struct Listed {
    /// Complete ones of the run, oldest first.
    pub complete: Vec<Checkpoint>,
    /// Incomplete ones.
    pub(super) damaged: Vec<DamagedCheckpoint>,
    /// Complete ones of other runs, oldest first.
    pub(super) foreign: Vec<Checkpoint>,
}

/// A checkpoint that is not complete although its name says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedCheckpoint {
    pub path: PathBuf,
    pub problem: String,
}

impl DamagedCheckpoint {
    /// True if a checkpoint was written there once, and not something else given such a name.
    pub(super) fn was_one(&self) -> bool {
        self.path.join(MANIFEST).is_file()
    }
}

impl Listed {
    /// Refuses checkpoints of other runs than `own`.
    pub(super) fn refuse_foreign(&self, own: &RunId) -> Result<()> {
        let Some(foreign) = self.foreign.last() else { return Ok(()) };
        let problem = format!(
            "a checkpoint of another run ({}; this run is {own}); move it out of this directory, or begin with its weights in a run of their \
             own with model.checkpoint=DIR",
            foreign.run()
        );
        Err(RunError::Damaged { path: foreign.path().to_owned(), problem })
    }
}

/// The checkpoints in `directory`; without the number of a run all are taken for its own.
pub(super) fn list(disk: &Disk, directory: &Path, id: Option<&RunId>) -> Result<Listed> {
    let mut listed = Listed::default();
    for name in disk.list(directory)? {
        let Some(step) = step(COMPLETE, &name) else { continue };
        let path = directory.join(&name);
        match Checkpoint::find(disk, &path, step) {
            Ok(found) if id.is_none_or(|id| found.run() == id) => listed.complete.push(found),
            Ok(found) => listed.foreign.push(found),
            Err(problem) => listed.damaged.push(DamagedCheckpoint { path, problem }),
        }
    }
    listed.complete.sort_by_key(Checkpoint::step);
    listed.foreign.sort_by_key(Checkpoint::step);
    Ok(listed)
}

/// The newest checkpoint of the run at `run` and its name, if a process was killed after it had lost that and before another took it.
pub(super) fn nameless(disk: &Disk, run: &Path) -> Result<Option<[PathBuf; 2]>> {
    let directory = run.join("checkpoints");
    let newest = list(disk, &directory, None)?.complete.last().map(Checkpoint::step);
    for found in disk.list(&directory)? {
        let Some(step) = of_temporary(OLD, &found).filter(|step| newest < Some(*step)) else { continue };
        let (aside, path) = (directory.join(found), directory.join(name(COMPLETE, step)));
        let is_free = std::fs::symlink_metadata(&path).is_err();
        if is_free && is_directory(&aside) && Checkpoint::find(disk, &aside, step).is_ok() {
            return Ok(Some([aside, path]));
        }
    }
    Ok(None)
}

/// Gives it its name back.
pub(super) fn put_back(disk: &Disk, run: &Path) -> Result<()> {
    while let Some([aside, path]) = nameless(disk, run)? {
        disk.rename(&aside, &path)?;
    }
    Ok(())
}

/// The number of a run directory that holds a configuration. Where it was lost, a run without checkpoints draws another.
///
/// # Errors
/// [`RunError::Damaged`] where it was lost and there are checkpoints, which would all be those of another run.
pub(super) fn id_of_run(disk: &Disk, run: &Path) -> Result<RunId> {
    if let Some(id) = claim::read_id(disk, run)? {
        return Ok(id);
    }
    let found = list(disk, &run.join("checkpoints"), None)?;
    if let Some(checkpoint) = found.complete.last() {
        let problem = format!(
            "missing, although the run has checkpoints; it held the number of the run, which {} says is {}: write that into it to go on",
            checkpoint.path().display(),
            checkpoint.run()
        );
        return Err(RunError::Damaged { path: run.join(claim::ID), problem });
    }
    claim::write_id(disk, run)?;
    claim::read_id(disk, run)?
        .ok_or_else(|| RunError::Damaged { path: run.join(claim::ID), problem: "not written".to_owned() })
}
