//! The latest and the best checkpoint of a run, for concurrent readers; held, neither is removed while the run goes on.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use grpo_lambda_decoder::disk::Disk;

use super::checkpoint::Checkpoint;
use super::checkpoints::{self, COMPLETE, DamagedCheckpoint, Listed};
use super::{Result, RunError, claim, marks};

/// A checkpoint that its run does not remove as long as this value lives.
#[derive(Debug)]
pub struct HeldCheckpoint {
    checkpoint: Checkpoint,
    /// `None` if the file system has no locks.
    _lock: Option<File>,
}

impl HeldCheckpoint {
    /// Checks every file of a checkpoint that is held by now.
    fn new(checkpoint: Checkpoint, lock: Option<File>) -> Result<HeldCheckpoint> {
        checkpoint.verify()?;
        Ok(HeldCheckpoint { checkpoint, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        self.checkpoint.path()
    }
}

/// The checkpoint that a directory is, or is a part of, held, with every file as it was written; `None` for a model from elsewhere, which
/// has no manifest.
///
/// # Errors
/// [`RunError`] for the first file that is missing, cannot be read, or has changed.
pub fn hold_directory(directory: &Path) -> Result<Option<HeldCheckpoint>> {
    let Some(checkpoint) = Checkpoint::around(&Disk::default(), directory)? else { return Ok(None) };
    let lock = checkpoint.lock_for_reading().unwrap_or_default();
    HeldCheckpoint::new(checkpoint, lock).map(Some)
}

/// The attempts of a reader to find a checkpoint that is not about to go, and the pause between them.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// The latest complete checkpoint of the run at `path`, held, with every file as it was written.
pub fn hold_latest(path: &Path) -> Result<Option<HeldCheckpoint>> {
    held(path, latest)
}

/// The checkpoint of the best evaluation of the run at `path`, likewise.
///
/// # Errors
/// [`RunError`] if the directory cannot be listed, or what names the checkpoint is damaged or names one that is not there.
pub fn hold_best(path: &Path) -> Result<Option<HeldCheckpoint>> {
    held(path, best)
}

/// Finds a checkpoint of a run.
type Find = fn(&Path) -> Result<Option<Checkpoint>>;

fn held(path: &Path, find: Find) -> Result<Option<HeldCheckpoint>> {
    for _ in 0..TRIES {
        let Some(checkpoint) = find(path)? else { return Ok(None) };
        if let Ok(lock) = checkpoint.lock_for_reading() {
            return HeldCheckpoint::new(checkpoint, lock).map(Some);
        }
        // It is going, or has gone: there is a newer one.
        std::thread::sleep(PAUSE);
    }
    find(path)?.map(|checkpoint| HeldCheckpoint::new(checkpoint, None)).transpose()
}

/// The checkpoint of the best evaluation of the run at `path`; `None` if the run keeps none (`checkpoint.best`).
///
/// # Errors
/// [`RunError`] if the directory cannot be listed, when what names the checkpoint is damaged or names one that is not there, and for a
/// checkpoint of another run.
fn best(path: &Path) -> Result<Option<Checkpoint>> {
    let (disk, mut before) = (Disk::default(), None);
    while let Some(best) = marks::read_best(&disk, path)? {
        let listed = list_of(&disk, path)?;
        let found = listed.complete.into_iter().find(|found| found.step() == best.step);
        // Between the name and the look there may be a better one; a name that stays the same is wrong.
        if found.is_some() {
            return Ok(found);
        }
        if before == Some(best.step) {
            let name = checkpoints::name(COMPLETE, best.step);
            return Err(match listed.damaged.into_iter().find(|found| found.path.ends_with(&name)) {
                Some(DamagedCheckpoint { path, problem }) => {
                    RunError::Damaged { path, problem: format!("damaged ({problem}); restore it") }
                }
                None => {
                    let problem = format!("names step {}, of which there is no checkpoint", best.step);
                    RunError::Damaged { path: path.join(marks::BEST), problem }
                }
            });
        }
        before = Some(best.step);
    }
    Ok(None)
}

/// The checkpoints of the run at `path`, those of other runs refused.
fn list_of(disk: &Disk, path: &Path) -> Result<Listed> {
    let id = claim::read_id(disk, path)?;
    let listed = checkpoints::list(disk, &path.join("checkpoints"), id.as_ref())?;
    if let Some(own) = &id {
        listed.refuse_foreign(own)?;
    }
    Ok(listed)
}

/// The latest complete checkpoint of the run at `path`, without opening the run. A run under way may remove it at any time:
/// [`hold_latest`] is for who reads its files.
///
/// # Errors
/// [`RunError::Io`] if the directory cannot be listed, [`RunError::Damaged`] for a checkpoint of another run, or a damaged one after it.
pub fn latest(path: &Path) -> Result<Option<Checkpoint>> {
    loop {
        let mut listed = list_of(&Disk::default(), path)?;
        // Between the list and the look into it the run may have put a newer one in the place of the only one.
        let gone = |damaged: &DamagedCheckpoint| std::fs::symlink_metadata(&damaged.path).is_err();
        if listed.damaged.iter().any(gone) {
            continue;
        }
        let latest = listed.complete.pop();
        return match listed.damaged.into_iter().rfind(|found| found.was_one() && is_named_rightly(found)) {
            Some(DamagedCheckpoint { path, problem })
                if latest.as_ref().is_none_or(|latest| latest.path() < path.as_path()) =>
            {
                let problem = format!("damaged ({problem}); restore it, or remove it to use the one before");
                Err(RunError::Damaged { path, problem })
            }
            _ => Ok(latest),
        };
    }
}

/// False for a sound checkpoint of another step under this name, which its run did not give it.
fn is_named_rightly(found: &DamagedCheckpoint) -> bool {
    let sound = Checkpoint::around(&Disk::default(), &found.path).ok().flatten();
    sound.is_none_or(|sound| found.path.ends_with(checkpoints::name(COMPLETE, sound.step())))
}
