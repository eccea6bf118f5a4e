//! Which run a directory and its checkpoints belong to.
//!
//! Runs of the same configuration are told apart by a random number, which each draws when it begins and writes into its directory and into
//! the manifest of every checkpoint. A checkpoint that was copied in from another run is thereby recognised, whatever its settings are.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;

use grpo_lambda_decoder::disk::Disk;
use serde::{Deserialize, Serialize};

use super::RunError;

/// The file in the run directory.
pub(super) const FILE: &str = "id";

/// The number of a run, as 16 hexadecimal digits.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct RunId(String);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl RunId {
    /// A new one. The standard library seeds its hash tables from the system's random numbers.
    pub(super) fn random() -> RunId {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        hasher.write_u64(super::now().to_bits());
        RunId(format!("{:016x}", hasher.finish()))
    }
}

/// That of the run at `run`; `None` where none is written.
///
/// # Errors
/// [`RunError`] when the file cannot be read, or does not hold such a number.
pub(super) fn read(disk: &Disk, run: &Path) -> Result<Option<RunId>, RunError> {
    let path = run.join(FILE);
    let Some(bytes) = disk.read(&path)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    let is_id = text.len() == 16 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if is_id {
        return Ok(Some(RunId(text)));
    }
    let problem = "must be the number of this run in 16 hexadecimal digits, as the manifests of its checkpoints have it";
    Err(RunError::Damaged { path, problem: problem.to_owned() })
}

/// Gives a new run its number.
pub(super) fn write(disk: &Disk, run: &Path) -> Result<(), RunError> {
    Ok(disk.replace(&run.join(FILE), format!("{}\n", RunId::random()).as_bytes())?)
}
