//! Directories that a command fills: complete, or marked as unfinished, so that the same command can be run again.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{AppendFile, Disk, DiskError, failed};

/// The file that lists what was written into an unfinished directory.
const MARK: &str = ".unfinished";
/// The first line of [`MARK`].
const HEAD: &str = "A command of grpo-lambda was filling this directory; run again, it first removes the \
    files listed here.\n";

/// The list of names in [`MARK`]. Each is written down before it is made.
#[derive(Debug)]
pub(super) struct Made(Mutex<AppendFile>);

impl Disk {
    /// A name in `directory` that [`Disk::fill`] would refuse; `None` if the directory is new, empty, or was left unfinished.
    ///
    /// # Errors
    /// [`DiskError`] if it cannot be read.
    pub fn obstacle(&self, directory: &Path) -> Result<Option<String>, DiskError> {
        let ours = made(self, directory)?;
        let is_ours = |name: &str| name == MARK || ours.iter().any(|path| path.starts_with(name));
        let mark = self.read(&directory.join(MARK))?;
        let has_mark =
            mark.is_some_and(|b| b.starts_with(HEAD.as_bytes()) || HEAD.as_bytes().starts_with(&b));
        Ok(self.list(directory)?.into_iter().find(|name| !has_mark || !is_ours(name)))
    }

    /// Fills a directory that has no [`Disk::obstacle`]; until `write` is done it is marked, and what an earlier attempt left is removed
    /// first. On failure it is left as it was before. `refused` converts errors of the disk.
    ///
    /// # Errors
    /// The errors of `write`, and when the disk refuses.
    pub fn fill<E>(
        &self,
        directory: &Path,
        refused: impl Fn(DiskError) -> E,
        write: impl FnOnce(&Disk) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(name) = self.obstacle(directory).map_err(&refused)? {
            let problem = format!("it holds {name}; must be empty or new");
            let problem = io::Error::new(io::ErrorKind::InvalidInput, problem);
            return Err(refused(failed("fill", directory)(problem)));
        }
        let was_there = directory.exists();
        let filled = self.begin(directory).map_err(&refused).and_then(|begun| {
            let Some((disk, _lock)) = begun else {
                let busy = io::Error::new(io::ErrorKind::ResourceBusy, "another process is filling it");
                return Ok(Some(refused(failed("fill", directory)(busy))));
            };
            write(&disk)?;
            // The last operation: if it is lost in a power failure, the next attempt begins again.
            disk.remove_file(&directory.join(MARK)).map(|()| None).map_err(&refused)
        });
        if filled.is_err() && self.alive().is_ok() {
            // The error that stopped the command is the one to report.
            drop(self.inside(directory).and_then(|disk| {
                disk.unmake(directory).and_then(|()| disk.remove_file(&directory.join(MARK)))
            }));
            if !was_there {
                drop(self.place(directory).and_then(|place| place.remove_directory()));
            }
        }
        filled?.map_or(Ok(()), Err)
    }

    /// Opens the directory with its mark, which is locked, and empties it. `None` if another process holds the lock.
    fn begin(&self, directory: &Path) -> Result<Option<(Disk, File)>, DiskError> {
        let disk = self.inside(directory)?;
        let path = directory.join(MARK);
        let lock = disk.open_lock(&path)?;
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Ok(None);
        }
        disk.unmake(directory)?;
        let mut list = AppendFile::open(&disk, &path, 0)?;
        list.append(HEAD.as_bytes())?;
        Ok(Some((Disk { made: Some(Arc::new(Made(Mutex::new(list)))), ..disk }, lock)))
    }

    /// Removes what the mark lists, the contents of a folder before it.
    fn unmake(&self, directory: &Path) -> Result<(), DiskError> {
        for name in made(self, directory)?.into_iter().rev() {
            let path = directory.join(name);
            let removed = self.alive().and_then(|()| self.place(&path)).and_then(|place| {
                if place.entries()?.is_some() { place.remove_directory() } else { place.remove_file() }
            });
            match removed {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(failed("remove", &path))?,
            }
        }
        Ok(())
    }

    /// Writes down that `path` is about to be made, in a directory that is being filled.
    pub(super) fn note(&self, path: &Path) -> io::Result<()> {
        let (Some(Made(list)), Some(root)) = (self.made.as_deref(), &self.root) else { return Ok(()) };
        let Some(name) = root.names(path) else { return Ok(()) };
        let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
        list.append(format!("{}\n", name.display()).as_bytes()).map_err(|e| e.source)
    }
}

/// The names in the mark of a directory. One that a killed process wrote in part was not made yet.
fn made(disk: &Disk, directory: &Path) -> Result<BTreeSet<PathBuf>, DiskError> {
    let bytes = disk.read(&directory.join(MARK))?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let Some(list) = text.strip_prefix(HEAD) else { return Ok(BTreeSet::new()) };
    let whole = list.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(PathBuf::from);
    let is_inside = |path: &PathBuf| path.components().all(|part| matches!(part, Component::Normal(_)));
    Ok(whole.filter(|path| path.components().next().is_some() && is_inside(path)).collect())
}
