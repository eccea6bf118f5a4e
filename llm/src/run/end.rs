//! How long the logs are once a run is done: the evaluation after the last step follows the last checkpoint, which does not know of it.

use std::collections::BTreeMap;
use std::path::Path;

use grpo_lambda_decoder::disk::Disk;
use serde::{Deserialize, Serialize};

use super::RunError;

/// The file in the run directory.
const FILE: &str = "end.json";

/// The logs after the last step.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct End {
    /// The number of the last checkpoint; with another one the run has gone on since.
    pub(super) step: u64,
    /// The length of each log in bytes.
    pub(super) logs: BTreeMap<String, u64>,
}

pub(super) fn read(disk: &Disk, run: &Path) -> Result<Option<End>, RunError> {
    let path = run.join(FILE);
    let Some(bytes) = disk.read(&path)? else { return Ok(None) };
    let damaged = |e: serde_json::Error| RunError::Damaged { path, problem: e.to_string() };
    serde_json::from_slice(&bytes).map(Some).map_err(damaged)
}

pub(super) fn write(disk: &Disk, run: &Path, end: &End) -> Result<(), RunError> {
    let path = run.join(FILE);
    let text = serde_json::to_string(end)
        .map_err(|e| RunError::Damaged { path: path.clone(), problem: e.to_string() })?;
    Ok(disk.replace(&path, format!("{text}\n").as_bytes())?)
}
