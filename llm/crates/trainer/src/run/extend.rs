//! Gives a run more steps than it was started with.

use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::{Disk, DiskError};

use super::{CONFIG, RunError, SUMMARY, begin, lock, refuse_file, refuse_others};
use crate::config::schedule::{Schedule, ScheduleShape};
use crate::config::{Config, ConfigError};

/// The reason why a run was not extended.
#[derive(Debug, thiserror::Error)]
pub enum ExtendError {
    #[error("--extend: {path} holds no run; leave --extend out to begin one")]
    NoRun { path: PathBuf },
    #[error("--extend: {path}: {key} = {new}: the run has {old}; it can only become larger")]
    NotMore { path: PathBuf, key: &'static str, old: u64, new: u64 },
    #[error(
        "--extend: {path}: {key}.schedule = {schedule}: the learning rates of the steps that were done depend on {key}.steps; only a run with \
         {key}.schedule=constant can be extended, others begin anew in another directory (--run DIR)"
    )]
    Schedule { path: PathBuf, key: &'static str, schedule: &'static str },
    #[error(
        "--extend: {path}: a run without RL; RL begins from its checkpoint in a run of its own: llm-train train --run DIR \
         model.checkpoint={path}/checkpoints/step-N sft.steps=0"
    )]
    NoRl { path: PathBuf },
    #[error(
        "--extend: {path}: a run with RL, whose supervised steps cannot become more; leave sft.steps as it was"
    )]
    Supervised { path: PathBuf },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Run(#[from] RunError),
}

impl ExtendError {
    /// True if the work broke off, rather than the input being refused.
    pub fn is_io(&self) -> bool {
        matches!(self, ExtendError::Disk(_) | ExtendError::Run(RunError::Io(_)))
    }
}

/// Writes the larger numbers of steps of `wanted` into the run at `path`, which [`check`] has accepted: its lock is a file in that directory. The
/// summary of the shorter run stays as `summary-STEPS.json`.
///
/// # Errors
/// [`ExtendError`], of [`check`] among others: another process may have changed the run since.
pub(crate) fn extend(path: &Path, wanted: &Config) -> Result<(), ExtendError> {
    let disk = Disk::default().inside(path)?;
    let _lock = lock(&disk, path)?;
    let (stored, extended) = check(path, wanted)?;
    if extended == stored {
        return Ok(());
    }
    let done = stored.sft.steps + stored.rl.steps;
    // The summary first: without one the run is under way, whatever its configuration says.
    if path.join(SUMMARY).exists() {
        disk.rename(&path.join(SUMMARY), &path.join(format!("summary-{done}.json")))?;
    }
    Ok(disk.replace(&path.join(CONFIG), extended.to_toml().as_bytes())?)
}

/// Refuses an extension to the steps of `wanted` that cannot be, and changes nothing. Returns the configuration of the run at `path`, and that
/// with these steps.
///
/// # Errors
/// [`ExtendError`]: there is no run, it has lost its checkpoints, its steps cannot become these, or other settings that matter differ.
pub fn check(path: &Path, wanted: &Config) -> Result<(Config, Config), ExtendError> {
    refuse_file(path)?;
    let file = path.join(CONFIG);
    if !file.is_file() {
        return Err(ExtendError::NoRun { path: path.to_owned() });
    }
    let stored = Config::read(&file)?;
    begin::refuse_without_checkpoints(&Disk::default(), path, &stored)?;
    more(path, "rl", &stored.rl.learning_rates(), &wanted.rl.learning_rates())?;
    more(path, "sft", &stored.sft.learning_rates(), &wanted.sft.learning_rates())?;
    if wanted.rl.steps > 0 && stored.rl.steps == 0 {
        return Err(ExtendError::NoRl { path: path.to_owned() });
    }
    if wanted.sft.steps > stored.sft.steps && stored.rl.steps > 0 {
        return Err(ExtendError::Supervised { path: path.to_owned() });
    }
    let words = [format!("rl.steps={}", wanted.rl.steps), format!("sft.steps={}", wanted.sft.steps)];
    let extended = stored.with(&words)?;
    refuse_others(path, &extended, wanted)?;
    Ok((stored, extended))
}

/// Refuses fewer steps, and more of them under a schedule that they change.
fn more(path: &Path, key: &'static str, old: &Schedule, new: &Schedule) -> Result<(), ExtendError> {
    let path = path.to_owned();
    if new.steps < old.steps {
        let key = if key == "rl" { "rl.steps" } else { "sft.steps" };
        return Err(ExtendError::NotMore { path, key, old: old.steps, new: new.steps });
    }
    if new.steps > old.steps && old.steps > 0 && old.shape != ScheduleShape::Constant {
        let schedule = if old.shape == ScheduleShape::Linear { "linear" } else { "cosine" };
        return Err(ExtendError::Schedule { path, key, schedule });
    }
    Ok(())
}
