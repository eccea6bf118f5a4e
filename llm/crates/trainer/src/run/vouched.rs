//! A run's logs for concurrent readers, as far as the run vouches for them.
//!
//! `end.json` has the checksum of every log of a run that is done, the manifest of a checkpoint that of the logs when it was written. Of a run
//! that is under way, or was killed, rows after the latest checkpoint have none.

use std::io::{self, ErrorKind};
use std::path::Path;

use grpo_lambda_decoder::disk::{Disk, DiskError};

use super::digest::Digest;
use super::marks::End;
use super::{Checkpoint, Result, RunError, SUMMARY, checkpoints, claim, log, marks};

/// The text of a log of the run at `run`; of a run under way the last line may be incomplete.
///
/// # Errors
/// [`RunError::Io`] if the log is missing or cannot be read, [`RunError::Damaged`] if it does not begin as the run wrote it.
pub fn read_log(run: &Path, name: &str) -> Result<String> {
    let (disk, path) = (Disk::default(), run.join(name));
    // Before the log, which a run under way only makes longer.
    let vouched = vouched(&disk, run, name)?;
    let bytes = disk.read(&path)?;
    let missing = || {
        let source = io::Error::new(ErrorKind::NotFound, "No such file or directory");
        DiskError { action: "read", path: path.clone(), source }
    };
    let bytes = bytes.ok_or_else(missing)?;
    if let Some((held, is_whole)) = vouched {
        let length = bytes.len().min(usize::try_from(held.bytes).unwrap_or(usize::MAX));
        log::compare(path.clone(), Digest::new(&bytes[..length]), held)?;
        if is_whole && length < bytes.len() {
            let problem = format!(
                "{} bytes long, but the run ended when it had {length}; restore the file, or start again in another directory",
                bytes.len()
            );
            return Err(RunError::Damaged { path, problem });
        }
    }
    String::from_utf8(bytes).map_err(|e| RunError::Damaged { path, problem: format!("not UTF-8 text: {e}") })
}

/// The digest of a log when the run ended, or else at its latest complete checkpoint; true if nothing may follow, because the run is done.
fn vouched(disk: &Disk, run: &Path, name: &str) -> Result<Option<(Digest, bool)>> {
    let is_done = run.join(SUMMARY).exists();
    let (end, latest) = end_and_latest(disk, run)?;
    // A run that has gone on since its end, or back before it, has other logs.
    let end = end.filter(|end| latest.as_ref().is_none_or(|latest| latest.step() == end.step));
    match (end, latest) {
        (Some(end), _) => Ok(end.logs.get(name).map(|held| (*held, is_done))),
        (None, Some(latest)) => Ok(Some((latest.log(name)?, false))),
        (None, None) => Ok(None),
    }
}

/// The end that the run last had, and its latest complete checkpoint.
fn end_and_latest(disk: &Disk, run: &Path) -> Result<(Option<End>, Option<Checkpoint>)> {
    let id = claim::read_id(disk, run)?;
    let latest = checkpoints::list(disk, &run.join("checkpoints"), id.as_ref())?.complete.pop();
    Ok((marks::read_end(disk, run)?, latest))
}

/// True if the run at `run` is done, so that opening it leaves nothing to do: it has a summary, and the checkpoint of its end.
pub fn is_done(run: &Path) -> bool {
    let is_lost = |(end, latest): (Option<End>, Option<Checkpoint>)| {
        end.zip(latest).is_some_and(|(end, c)| end.is_after(&c))
    };
    // Whatever else is wrong, the opening refuses.
    run.join(SUMMARY).exists() && !end_and_latest(&Disk::default(), run).is_ok_and(is_lost)
}
