//! Two sealed files of a run directory: the best evaluation, whose checkpoint is kept however many come after it; and the length of the logs once a
//! run is done, since the evaluation after the last step follows the last checkpoint, which does not know of it.

use std::collections::BTreeMap;
use std::path::Path;

use grpo_lambda_decoder::disk::Disk;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::digest::{self, Digest};
use super::{Checkpoint, Result, RunError};

pub(super) const BEST: &str = "best.json";
pub(super) const END: &str = "end.json";

/// The best evaluation so far.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// Steps of both stages done: the number of its checkpoint.
    pub step: u64,
    /// Held-out accuracy. The largest of several measurements is too high by chance.
    pub accuracy: f64,
}

/// The logs after the last step.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    /// The number of the last checkpoint; with another one the run has gone on since.
    pub(super) step: u64,
    pub(super) logs: BTreeMap<String, Digest>,
}

impl End {
    /// True if the checkpoint of the end is lost, where this one is the latest: the run will have another end.
    pub(super) fn is_after(&self, latest: &Checkpoint) -> bool {
        latest.step() < self.step
    }
}

pub fn read_best(disk: &Disk, run: &Path) -> Result<Option<Best>> {
    let without = "without this file the checkpoint of the best evaluation may be removed";
    read(disk, run, BEST, without)
}

pub(super) fn write_best(disk: &Disk, run: &Path, best: Best) -> Result<()> {
    Ok(disk.replace(&run.join(BEST), &digest::seal(&best))?)
}

pub(super) fn read_end(disk: &Disk, run: &Path) -> Result<Option<End>> {
    read(disk, run, END, "without this file the last evaluation is made again")
}

pub(super) fn write_end(disk: &Disk, run: &Path, end: &End) -> Result<()> {
    Ok(disk.replace(&run.join(END), &digest::seal(end))?)
}

fn read<T: DeserializeOwned + Serialize>(
    disk: &Disk,
    run: &Path,
    file: &str,
    without: &str,
) -> Result<Option<T>> {
    let path = run.join(file);
    let Some(bytes) = disk.read(&path)? else { return Ok(None) };
    let damaged = |e| RunError::Damaged { path, problem: format!("{e}; {without}") };
    digest::open(&bytes).map(Some).map_err(damaged)
}
