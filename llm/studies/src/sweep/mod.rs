//! Many runs as one: supervised stages, and RL runs that start from them, each in a directory of its own.
//!
//! ```text
//! DIR/NAME.toml   the identity, written first; the directory refuses another sweep
//! DIR/START/      a supervised stage, shared by the runs of one seed or of one model
//! DIR/RUN/        reinforcement learning from its last checkpoint
//! ```
//! A sweep is data: [`crate::compare`] spans methods and seeds, [`crate::reproduce`] models, data sets and variants.
//! After an interruption the same sweep reads its finished runs and resumes the others.

mod clock;
mod identity;

use std::path::{Path, PathBuf};
use std::time::Instant;

use grpo_lambda_engines::WithServer;
use grpo_lambda_trainer::config::{Config, ConfigError};
use grpo_lambda_trainer::run::progress::say;
use grpo_lambda_trainer::run::{self, RunError};
use grpo_lambda_trainer::train::{RunSummary, train};

use crate::failure::Failure;
use crate::record::summary;
use clock::{EtaClock, RunKind};
pub use identity::Identity;

/// A supervised stage to be shared by several runs.
#[derive(Clone, Debug)]
pub struct Start {
    /// For progress and errors.
    pub name: String,
    /// Relative to the sweep's.
    pub directory: PathBuf,
    /// The configuration of its runs, before their own settings.
    pub base: Config,
}

/// Reinforcement learning from a start.
#[derive(Clone, Debug)]
pub struct Run {
    pub name: String,
    /// Relative to the sweep's.
    pub directory: PathBuf,
    /// Place of its start among the sweep's.
    pub start: usize,
    /// `key=value` settings over the start's base.
    pub settings: Vec<String>,
}

/// A finished supervised stage.
#[derive(Clone, Debug)]
pub struct Started {
    base: Config,
    pub summary: RunSummary,
    checkpoint: PathBuf,
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Finished {
    pub directory: PathBuf,
    pub config: Config,
    pub summary: RunSummary,
}

impl Run {
    /// Its configuration from a supervised checkpoint.
    pub fn config(&self, base: &Config, checkpoint: &Path) -> Result<Config, ConfigError> {
        let from = ["sft.steps=0".to_owned(), format!("model.checkpoint={}", checkpoint.display())];
        base.with(&[&self.settings[..], &from].concat())
    }
}

/// A sweep in its directory.
#[derive(Debug)]
pub struct Sweep<'a> {
    /// Absolute, so that another spelling of it names the same checkpoints.
    directory: PathBuf,
    /// Recorded in each run's files.
    command: &'a str,
    clock: EtaClock,
}

impl<'a> Sweep<'a> {
    /// Claims a directory for the sweep with this identity.
    pub fn open(directory: &Path, identity: &Identity<'_>, command: &'a str) -> Result<Self, Failure> {
        identity.claim(directory)?;
        let directory = std::path::absolute(directory)
            .map_err(|e| Failure::broke(format!("{}: {e}", directory.display())))?;
        Ok(Sweep { directory, command, clock: EtaClock::default() })
    }

    /// Announces so many supervised stages and runs, for the estimate of the remaining time.
    pub fn expect(&mut self, starts: usize, runs: usize) {
        self.clock.expect(starts, runs);
    }

    /// Completes the supervised stages.
    pub fn start(&mut self, starts: Vec<Start>) -> Result<Vec<Started>, Failure> {
        let complete = |Start { name, directory, base }| {
            let path = self.directory.join(directory);
            let summary = self.complete(&name, &path, &base.with(&["rl.steps=0", "method.name=grpo"])?)?;
            self.clock.done(RunKind::Sft, summary.seconds);
            Ok(Started { base, summary, checkpoint: last_checkpoint(&path)? })
        };
        starts.into_iter().map(complete).collect()
    }

    /// Completes the runs in order, and collects a result from each.
    pub fn run<T>(
        &mut self,
        runs: &[Run],
        starts: &[Started],
        mut collect: impl FnMut(usize, Finished) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let complete = |(i, run): (usize, &Run)| {
            let Started { base, checkpoint, .. } = &starts[run.start];
            let (directory, config) = (self.directory.join(&run.directory), run.config(base, checkpoint)?);
            let summary = self.complete(&run.name, &directory, &config)?;
            let (began, seconds) = (Instant::now(), summary.seconds);
            let collected = collect(i, Finished { directory, config, summary })?;
            self.clock.done(RunKind::Rl, seconds + began.elapsed().as_secs_f64());
            Ok(collected)
        };
        runs.iter().enumerate().map(complete).collect()
    }

    /// Executes or resumes a run, unless its directory holds it finished.
    fn complete(&self, name: &str, path: &Path, config: &Config) -> Result<RunSummary, Failure> {
        if let Some(done) = finished(path, config)? {
            return Ok(done);
        }
        say(&format!("{}: {name}", self.clock.line()));
        train(&WithServer, config, (path, false), self.command).map_err(|e| Failure::from(e).within(name))
    }
}

/// The summary of a finished run. Errors if it was made with another configuration.
fn finished(path: &Path, config: &Config) -> Result<Option<RunSummary>, Failure> {
    let Some(done) = summary(path)? else { return Ok(None) };
    let mut differences = Config::read(&path.join("config.toml"))?.differences(config);
    differences.retain(|d| d.affects_result);
    match differences.is_empty() {
        true => Ok(Some(done)),
        false => Err(RunError::ConfigChanged { path: path.to_owned(), differences }.into()),
    }
}

/// The final checkpoint of a finished run.
pub fn last_checkpoint(run: &Path) -> Result<PathBuf, Failure> {
    let gone = || Failure::broke(format!("{}: its final checkpoint is gone", run.display()));
    Ok(run::hold_latest(run)?.ok_or_else(gone)?.path().to_owned())
}
