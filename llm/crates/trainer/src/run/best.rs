//! The checkpoint of the best evaluation, which is kept however many come after it.

use std::path::Path;

use grpo_lambda_decoder::disk::Disk;
use serde::{Deserialize, Serialize};

use super::RunError;
use super::digest;

/// The file in the run directory that names it.
pub(super) const FILE: &str = "best.json";

/// The best evaluation so far.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// Steps of both stages done: the number of its checkpoint.
    pub step: u64,
    /// Held-out accuracy. The largest of several measurements is too high by chance.
    pub accuracy: f64,
}

/// What [`write`] wrote.
pub(super) fn read(disk: &Disk, run: &Path) -> Result<Option<Best>, RunError> {
    let path = run.join(FILE);
    let Some(bytes) = disk.read(&path)? else { return Ok(None) };
    let damaged = |e| {
        let problem = format!("{e}; without this file the checkpoint of the best evaluation may be removed");
        RunError::Damaged { path, problem }
    };
    digest::open(&bytes).map(Some).map_err(damaged)
}

/// Names the best checkpoint.
pub(super) fn write(disk: &Disk, run: &Path, best: Best) -> Result<(), RunError> {
    Ok(disk.replace(&run.join(FILE), &digest::seal(&best))?)
}
