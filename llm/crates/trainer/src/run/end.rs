//! How long the logs are once a run is done: the evaluation after the last step follows the last checkpoint, which does not know of it.

use std::collections::BTreeMap;
use std::path::Path;

use grpo_lambda_decoder::disk::Disk;
use serde::{Deserialize, Serialize};

use super::RunError;
use super::digest::{self, Digest};

/// The file in the run directory.
const FILE: &str = "end.json";

/// The logs after the last step.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    /// The number of the last checkpoint; with another one the run has gone on since.
    pub(super) step: u64,
    /// What each log holds.
    pub(super) logs: BTreeMap<String, Digest>,
}

pub(super) fn read(disk: &Disk, run: &Path) -> Result<Option<End>, RunError> {
    let path = run.join(FILE);
    let Some(bytes) = disk.read(&path)? else { return Ok(None) };
    let damaged = |e| {
        let problem = format!("{e}; without this file the run goes back to its last checkpoint");
        RunError::Damaged { path, problem }
    };
    digest::open(&bytes).map(Some).map_err(damaged)
}

pub(super) fn write(disk: &Disk, run: &Path, end: &End) -> Result<(), RunError> {
    Ok(disk.replace(&run.join(FILE), &digest::seal(end))?)
}
