//! Gives a run more steps than it was started with.

use std::path::Path;

use grpo_lambda_decoder::disk::Disk;

use super::{CONFIG, Claim, Result, RunDir, RunError, SUMMARY, lock};
use crate::config::Config;
use crate::config::schedule::{Schedule, ScheduleShape};

/// The reason why a run is not extended.
#[derive(Debug, thiserror::Error)]
pub enum ExtendError {
    #[error(" holds no run; leave --extend out to begin one")]
    NoRun,
    #[error(": {key} = {new}: the run has {old}; it can only become larger")]
    NotMore { key: &'static str, old: u64, new: u64 },
    #[error(
        ": {key}.schedule = {schedule}: the learning rates of the steps that were done depend on {key}.steps; only a run with \
         {key}.schedule=constant can be extended, others begin again in another directory (--run DIR)"
    )]
    Schedule { key: &'static str, schedule: &'static str },
    #[error(
        ": a run without RL; RL begins from its checkpoint in a run of its own: llm-train train --run DIR \
         model.checkpoint={0}/checkpoints/step-N sft.steps=0"
    )]
    NoRl(String),
    #[error(
        ": sft.steps = {new}: the run has {old}, and RL has begun from there; repeat the whole command that began the run, with a larger \
         rl.steps"
    )]
    Supervised { old: u64, new: u64 },
}

pub(super) fn refused(path: &Path, refusal: ExtendError) -> RunError {
    RunError::Extend { path: path.to_owned(), refusal }
}

/// The configuration of a run with the steps of `wanted`.
pub(super) fn extended(path: &Path, stored: &Config, wanted: &Config) -> Result<Config> {
    let refused = |refusal| refused(path, refusal);
    more(["rl", "rl.steps"], &stored.rl.learning_rates(), &wanted.rl.learning_rates()).map_err(refused)?;
    if wanted.sft.steps > stored.sft.steps && stored.rl.steps > 0 {
        let [old, new] = [stored.sft.steps, wanted.sft.steps];
        return Err(refused(ExtendError::Supervised { old, new }));
    }
    more(["sft", "sft.steps"], &stored.sft.learning_rates(), &wanted.sft.learning_rates())
        .map_err(refused)?;
    if wanted.rl.steps > 0 && stored.rl.steps == 0 {
        return Err(refused(ExtendError::NoRl(path.display().to_string())));
    }
    let words = [format!("rl.steps={}", wanted.rl.steps), format!("sft.steps={}", wanted.sft.steps)];
    Ok(stored.with(&words)?)
}

/// Refuses fewer steps, and more of them under a schedule that they change.
fn more([key, steps]: [&'static str; 2], old: &Schedule, new: &Schedule) -> Result<(), ExtendError> {
    if new.steps < old.steps {
        return Err(ExtendError::NotMore { key: steps, old: old.steps, new: new.steps });
    }
    if new.steps > old.steps && old.steps > 0 && old.shape != ScheduleShape::Constant {
        return Err(ExtendError::Schedule { key, schedule: old.shape.name() });
    }
    Ok(())
}

impl RunDir {
    /// Writes the larger numbers of steps of `config` into the run at `path`. The summary of the shorter run stays as `summary-STEPS.json`.
    ///
    /// # Errors
    /// [`RunError`], of [`RunDir::claim`] among others: another process may have changed the run since.
    pub fn extend(path: &Path, config: &Config) -> Result<()> {
        let disk = Disk::default().inside(path)?;
        let _lock = lock(&disk, path)?;
        let stored = Config::read(&path.join(CONFIG))?;
        let Claim::Extended(extended) = RunDir::claim(path, config, true)? else { return Ok(()) };
        let done = stored.sft.steps + stored.rl.steps;
        // The summary first: without one the run is under way, whatever its configuration says.
        if path.join(SUMMARY).exists() {
            disk.rename(&path.join(SUMMARY), &path.join(format!("summary-{done}.json")))?;
        }
        Ok(disk.replace(&path.join(CONFIG), extended.to_toml().as_bytes())?)
    }
}
