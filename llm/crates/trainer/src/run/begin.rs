//! Refusals to begin a run again over what an earlier one left: its logs would be cut to nothing.

use std::path::Path;

use grpo_lambda_decoder::disk::Disk;

use super::checkpoints::{self, DamagedCheckpoint};
use super::{LOGS, Result, RunError, SUMMARY, marks};
use crate::config::Config;

/// Refuses a run of which nothing is left under `checkpoints` although it once wrote one.
pub(super) fn refuse_without_checkpoints(disk: &Disk, run: &Path, configs: [&Config; 2]) -> Result<()> {
    let listed = checkpoints::list(disk, &run.join("checkpoints"), None)?;
    let is_any = !listed.complete.is_empty() || listed.damaged.iter().any(DamagedCheckpoint::was_one);
    if is_any || checkpoints::nameless(disk, run)?.is_some() {
        return Ok(());
    }
    let marks = [SUMMARY, marks::END, marks::BEST].into_iter().find(|name| run.join(name).exists());
    let Some(extra_inputs) = marks.or(longer_log(disk, run, configs)?) else { return Ok(()) };
    let problem = format!(
        "written by a run that had checkpoints, of which none is left, and beginning again would empty its logs; put {} back, or move {} away to \
         begin again",
        run.join("checkpoints").display(),
        run.display()
    );
    Err(RunError::Damaged { path: run.join(extra_inputs), problem })
}

/// A log with more rows than come before the first checkpoint: the supervised steps until it is due, and an evaluation.
fn longer_log(disk: &Disk, run: &Path, configs: [&Config; 2]) -> Result<Option<&'static str>> {
    // The run may have begun with another number than it goes on with.
    let [then, now] = configs.map(|config| config.checkpoint.every.min(config.sft.steps) + 1);
    let most = then.max(now);
    for (name, header) in [(LOGS[0], 2), (LOGS[1], 0)] {
        let mut lines = 0u64;
        disk.read_with(&run.join(name), |piece| {
            lines += piece.iter().filter(|b| **b == b'\n').count() as u64
        })?;
        if lines > most + header {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Refuses a run that has only damaged checkpoints left.
pub(super) fn refuse_damaged(run: &Path, damaged: &[DamagedCheckpoint]) -> Result<()> {
    let Some(damaged) = damaged.iter().rev().find(|damaged| damaged.was_one()) else { return Ok(()) };
    let problem = format!(
        "damaged ({}), and there is no other checkpoint; restore it, or move {} away to begin this run again from step 0",
        damaged.problem,
        run.display()
    );
    Err(RunError::Damaged { path: damaged.path.clone(), problem })
}
