//! The directory of a run.
//!
//! ```text
//! id                     the number of the run, which its checkpoints carry
//! config.toml            the resolved configuration, written first; itself a preset that repeats the run
//! metrics.csv  .jsonl    what was learned, one row per step; the same bytes however often the run was interrupted
//! timing.csv   .jsonl    seconds, tokens per second, memory: true of this machine on that day
//! samples.jsonl          sampled responses
//! held_out_*.jsonl       the answers to the held-out problems before RL and at the latest evaluation
//! events.out.tfevents.*  both, for TensorBoard
//! checkpoints/step-*/    complete checkpoints, the latest few
//! summary.json           written when the run is done
//! best.json              the step and accuracy of the checkpoint that checkpoint.best keeps
//! end.json               written after the last evaluation: how long the logs are then
//! lock                   held by the process that works here
//! ```
//!
//! A process may be killed at any moment. [`RunDir::open`] finds the latest complete checkpoint and cuts every log back
//! to its length at that time, so that the continued run writes what an unbroken run would have written.

pub mod adapter_base;
mod begin;
#[doc(hidden)]
pub mod checkpoint;
#[doc(hidden)]
pub mod checkpoints;
pub mod claim;
#[doc(hidden)]
pub mod digest;
#[doc(hidden)]
pub mod events;
mod extend;
mod find;
mod log;
#[doc(hidden)]
pub mod marks;
pub mod model_directory;
pub mod progress;
pub mod stop;
#[doc(hidden)]
pub mod vouched;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use grpo_lambda_decoder::disk::{Disk, DiskError};
use serde::Serialize;

use crate::config::{Config, ConfigError, SettingDifference};
pub use checkpoint::{Checkpoint, CheckpointWriter};
pub use checkpoints::DamagedCheckpoint;
use checkpoints::{Checkpoints, Listed};
pub(crate) use claim::{DirectoryLock, Mark, lock, look};
pub use claim::{RunId, read_id};
use digest::Digest;
pub use extend::ExtendError;
pub use find::{HeldCheckpoint, hold_best, hold_directory, hold_latest, latest};
use log::{AppendLog, RowLog};
pub use marks::Best;
use marks::End;
use progress::say;
pub(crate) use vouched::is_done;
pub use vouched::read_log;

/// The reason why a run directory could not be used.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Io(#[from] DiskError),
    #[error(
        "{path} is in use by {holder}: two processes must not write one run; wait for it, or choose another directory"
    )]
    Locked { path: PathBuf, holder: String },
    #[error("{path} is not a directory; choose another path with --run DIR")]
    NotADirectory { path: PathBuf },
    #[error(
        "{path} is not a run directory: it has no config.toml, but it is not empty either; choose another directory"
    )]
    NotARun { path: PathBuf },
    /// The directory holds a run of another configuration.
    #[error("{path} holds a run with other settings; use its own, or another directory with --run DIR:\n{}{}", lines(.differences), more_steps(.differences))]
    ConfigChanged {
        path: PathBuf,
        /// The settings in which the stored configuration (old) and the given one (new) differ.
        differences: Vec<SettingDifference>,
    },
    /// The directory went while the run was under way.
    #[error(
        "{path}: the run directory was removed, moved or replaced while this run was writing into it, so the run stops; \
         move it back and rerun the same command to resume from the latest checkpoint, or rerun it to begin again"
    )]
    Gone { path: PathBuf },
    /// The lock went while the run was under way.
    #[error(
        "{path}: removed or replaced while this run was working here, which lets a second process in, so the run stops; once no other \
         process works here, rerun the same command to resume from the latest checkpoint"
    )]
    Unlocked { path: PathBuf },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("--extend: {path}{refusal}")]
    Extend { path: PathBuf, refusal: ExtendError },
    #[error("{path}: {problem}")]
    Damaged { path: PathBuf, problem: String },
}

/// The result of work on a run directory.
pub type Result<T, E = RunError> = std::result::Result<T, E>;

fn lines(differences: &[SettingDifference]) -> String {
    differences.iter().map(|d| format!("  {d}")).collect::<Vec<_>>().join("\n")
}

/// The way to more steps, where nothing but their number is larger.
fn more_steps(differences: &[SettingDifference]) -> &'static str {
    let number = |value: &Option<String>| value.as_ref().and_then(|text| text.parse::<u64>().ok());
    let larger = |d: &SettingDifference| {
        ["rl.steps", "sft.steps"].contains(&d.key.as_str()) && number(&d.new) > number(&d.old)
    };
    if differences.iter().all(larger) { "\nmore steps are given to a run with --extend" } else { "" }
}

/// The columns of a run's logs.
#[derive(Clone, Copy, Debug)]
pub struct LogColumns<'a> {
    /// The command, for the first line of CSV files.
    pub command: &'a str,
    /// Columns of `metrics`: nothing that depends on the clock or the machine.
    pub metrics: &'a [&'a str],
    /// Columns of `timing`.
    pub timing: &'a [&'a str],
}

/// A run directory locked by this process.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Released when the process ends, however it ends.
    directory: DirectoryLock,
    disk: Disk,
    checkpoints: Checkpoints,
    metrics: RowLog,
    timing: RowLog,
    samples: AppendLog,
    events: AppendLog,
    /// True if the logs hold the rows after the last step: see [`marks`].
    ended: bool,
    /// The contents of `best.json`.
    best: Option<Best>,
}

/// The state of a directory before a run: see [`RunDir::claim`].
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// Free for the run to begin.
    Fresh,
    /// The run's, with as many steps as are asked for.
    Resumed,
    /// The run's, which gets more steps: by this configuration.
    Extended(Box<Config>),
}

/// The findings of [`RunDir::open`].
#[derive(Debug)]
pub struct OpenedRun {
    pub run: RunDir,
    /// The checkpoint to continue from; `None` for a fresh run.
    pub checkpoint: Option<Checkpoint>,
    /// Something else wrote there; they were passed over.
    pub damaged: Vec<DamagedCheckpoint>,
}

pub const CONFIG: &str = "config.toml";
/// Settings that say where a run's inputs lie.
const PATHS: [&str; 3] = ["task.data", "task.test", "model.checkpoint"];
const SUMMARY: &str = "summary.json";
pub const EVENTS: &str = "events.out.tfevents.1.grpo-lambda";
const LOGS: [&str; 6] =
    ["metrics.csv", "metrics.jsonl", "timing.csv", "timing.jsonl", "samples.jsonl", EVENTS];

impl RunDir {
    /// Opens `path` for a run of `config`: creates it, or finds where an interrupted run is to be continued.
    ///
    /// # Errors
    /// [`RunError`]: another process holds it, it is not a run's, or a run's with other settings that matter.
    pub fn open(path: &Path, config: &Config, columns: LogColumns<'_>) -> Result<OpenedRun> {
        Self::open_on(Disk::default(), path, config, columns)
    }

    /// Finds out what `path` is to a run of `config` and changes nothing; with `extends` its steps may be more than those of the run there.
    ///
    /// # Errors
    /// [`RunError`]: it is not a run's, or a run's with other settings that matter, or has lost its checkpoints, or cannot be extended.
    pub fn claim(path: &Path, config: &Config, extends: bool) -> Result<Claim> {
        refuse_file(path)?;
        claim(&Disk::default(), path, config, extends)
    }

    pub fn open_on(disk: Disk, path: &Path, config: &Config, columns: LogColumns<'_>) -> Result<OpenedRun> {
        refuse_file(path)?;
        let disk = disk.inside(path)?;
        let directory = lock(&disk, path)?;
        if claim(&disk, path, config, false)? == Claim::Fresh {
            claim::write_id(&disk, path)?;
            disk.replace(&path.join(CONFIG), config.to_toml().as_bytes())?;
        }
        checkpoints::put_back(&disk, path)?;
        let id = checkpoints::id_of_run(&disk, path)?;
        let best = marks::read_best(&disk, path)?;
        let checkpoints = Checkpoints::open(&disk, path, &id, config.checkpoint.keep)?;
        let listed = checkpoints.list()?;
        listed.refuse_foreign(&id)?;
        let Listed { mut complete, damaged, .. } = listed;
        let checkpoint = complete.pop();
        if checkpoint.is_none() {
            begin::refuse_damaged(path, &damaged)?;
        }
        let (held, ended) = held(&disk, path, checkpoint.as_ref())?;
        let length = |name: &str| held.get(name).copied().unwrap_or_default();
        let rows = |name: &str, columns_of: &[&str]| {
            RowLog::open(&disk, path, name, columns_of, columns.command, length)
        };
        let metrics = rows("metrics", columns.metrics)?;
        let timing = rows("timing", columns.timing)?;
        let samples = AppendLog::open(&disk, path, "samples.jsonl", length("samples.jsonl"))?;
        let mut events = AppendLog::open(&disk, path, EVENTS, length(EVENTS))?;
        if events.digest.bytes == 0 {
            events.append(&events::version(now()))?;
        }
        // The names of new logs: a checkpoint must not outlive a power failure without them.
        disk.sync_path(path)?;
        let path = path.to_owned();
        let run =
            RunDir { path, directory, disk, checkpoints, metrics, timing, samples, events, ended, best };
        Ok(OpenedRun { run, checkpoint, damaged })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one step's row to every log. The rows are with the system when this returns.
    ///
    /// # Panics
    /// If a name is not among the [`LogColumns`].
    pub fn record(
        &mut self,
        stage: &str,
        step: u64,
        metrics: &[(&str, f64)],
        timing: &[(&str, f64)],
    ) -> Result<()> {
        self.directory.check()?;
        self.ended = false;
        self.metrics.append(stage, step, metrics)?;
        self.timing.append(stage, step, timing)?;
        let scalars: Vec<(String, f64)> =
            metrics.iter().chain(timing).map(|(name, x)| (format!("{stage}/{name}"), *x)).collect();
        self.events.append(&events::scalars(now(), step, &scalars))
    }

    /// Appends one line to `samples.jsonl`; it must not depend on the clock.
    ///
    /// # Panics
    /// If `sample` has no JSON form.
    pub fn sample(&mut self, sample: &impl Serialize) -> Result<()> {
        self.directory.check()?;
        let line = serde_json::to_string(sample).expect("a sample has a JSON form");
        self.samples.append(format!("{line}\n").as_bytes())
    }

    /// Appends the row of an evaluation after `done` RL steps: besides the columns, scalars under `eval/` by steps done.
    ///
    /// # Panics
    /// If a name is not among the [`LogColumns`].
    pub fn record_evaluation(
        &mut self,
        done: u64,
        columns: &[(&str, f64)],
        scalars: &[(&str, f64)],
    ) -> Result<()> {
        self.directory.check()?;
        self.metrics.append("eval", done, columns)?;
        let scalars: Vec<(String, f64)> =
            scalars.iter().map(|(name, x)| (format!("eval/{name}"), *x)).collect();
        self.events.append(&events::scalars(now(), done, &scalars))
    }

    /// True if the rows after the last step are there already.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Marks the logs as complete up to what came after step `step`, the last.
    pub fn end(&mut self, step: u64) -> Result<()> {
        self.directory.check()?;
        self.sync_logs()?;
        marks::write_end(&self.disk, &self.path, &End { step, logs: self.digests() })?;
        self.ended = true;
        Ok(())
    }

    /// The best evaluation whose checkpoint is kept; `None` if none is.
    pub fn best(&self) -> Option<Best> {
        self.best
    }

    /// Agrees on the best evaluation when a run is opened: that of the state in its latest checkpoint, of step `latest`, unless a better one
    /// was written down for the same weights or earlier ones. If `keeps`, its checkpoint is kept from now on. Where the checkpoint that was kept is
    /// not whole, as in a copy of a run that went on meanwhile, the next evaluation is the best so far.
    pub fn resume(&mut self, latest: u64, stated: Option<Best>, keeps: bool) -> Result<Option<Best>> {
        let complete = self.checkpoints.list()?.complete;
        let is_lost = |best: &Best| complete.iter().all(|found| found.step() != best.step);
        let written = self.best.filter(|written| written.step <= latest);
        if let Some(lost) = written.filter(|written| keeps && is_lost(written)) {
            say(&format!(
                "warning: the checkpoint of the best evaluation, of step {}, is not there whole; the best of the evaluations from here on is kept",
                lost.step
            ));
            self.disk.remove(&self.path.join(marks::BEST))?;
            self.best = None;
            let stated = stated.filter(|stated| !is_lost(stated));
            self.settle(stated)?;
            return Ok(stated);
        }
        let best = match (stated, written) {
            (Some(stated), Some(written)) if stated.accuracy >= written.accuracy => Some(stated),
            (stated, written) => written.or(stated),
        };
        self.settle(best.filter(|_| keeps))?;
        Ok(best)
    }

    /// Writes down the best evaluation, if its checkpoint is there, and only then removes the checkpoints beyond the number to keep. Every
    /// checkpoint that goes because it is old goes here, so that at any moment `best.json` names one that stays.
    pub fn settle(&mut self, best: Option<Best>) -> Result<()> {
        self.directory.check()?;
        if let Some(best) = best.filter(|best| self.best != Some(*best)) {
            let listed = self.checkpoints.list()?;
            if listed.complete.iter().any(|found| found.step() == best.step) {
                marks::write_best(&self.disk, &self.path, best)?;
                self.best = Some(best);
            }
        }
        self.checkpoints.prune(self.best.map(|best| best.step));
        Ok(())
    }

    fn sync_logs(&self) -> Result<()> {
        self.logs().into_iter().try_for_each(AppendLog::sync)
    }

    fn logs(&self) -> [&AppendLog; 6] {
        let (metrics, timing) = (&self.metrics, &self.timing);
        [&metrics.csv, &metrics.json, &timing.csv, &timing.json, &self.samples, &self.events]
    }

    fn digests(&self) -> BTreeMap<String, Digest> {
        self.logs().into_iter().map(|log| (log.name.clone(), log.digest)).collect()
    }

    /// Writes the checkpoint after `step` steps with the files that `fill` puts in, then [`RunDir::settle`]s with the best evaluation so far.
    ///
    /// # Errors
    /// [`RunError`], or what `fill` returns; the checkpoints that were there before still are, and no other.
    pub fn save<E: From<RunError>>(
        &mut self,
        step: u64,
        best: Option<Best>,
        fill: impl FnOnce(&mut CheckpointWriter) -> Result<(), E>,
    ) -> Result<Checkpoint, E> {
        self.directory.check()?;
        self.sync_logs()?;
        let (digests, directory) = (self.digests(), &self.directory);
        let saved = self.checkpoints.save(step, digests, |writer| {
            fill(writer)?;
            Ok::<(), E>(directory.check()?) // a second process may have come in meanwhile
        });
        // A write that fails because the run was moved says so.
        let saved = saved.or_else(|error| directory.check().map_err(E::from).and(Err(error)))?;
        self.settle(best)?;
        Ok(saved)
    }

    /// Writes `summary.json`: the run is done.
    ///
    /// # Panics
    /// If `summary` has no JSON form.
    pub fn finish(&mut self, summary: &impl Serialize) -> Result<()> {
        self.directory.check()?;
        self.sync_logs()?;
        let text = serde_json::to_string_pretty(summary).expect("a summary has a JSON form");
        self.replace(SUMMARY, format!("{text}\n").as_bytes())
    }

    /// Replaces a file of the run as a whole.
    pub fn replace(&self, name: &str, contents: &[u8]) -> Result<()> {
        self.directory.check()?;
        Ok(self.disk.replace(&self.path.join(name), contents)?)
    }

    /// Writes down where the inputs lie now, once they were found to be those of the run.
    pub fn settle_paths(&self, config: &Config) -> Result<()> {
        let stored = Config::read(&self.path.join(CONFIG))?;
        let moved: Vec<String> = stored
            .differences(config)
            .into_iter()
            .filter(|d| PATHS.contains(&d.key.as_str()))
            .map(|d| format!("{}={}", d.key, d.new.unwrap_or_else(|| "none".to_owned())))
            .collect();
        match moved.is_empty() {
            true => Ok(()),
            false => self.replace(CONFIG, stored.with(&moved)?.to_toml().as_bytes()),
        }
    }

    /// The summary that [`RunDir::finish`] wrote; `None` if the run is not done.
    pub fn summary(&self) -> Result<Option<serde_json::Value>> {
        let path = self.path.join(SUMMARY);
        let Some(bytes) = self.disk.read(&path)? else { return Ok(None) };
        let value = serde_json::from_slice(&bytes);
        value.map(Some).map_err(|e| RunError::Damaged { path, problem: e.to_string() })
    }
}

/// Refuses what is there and no directory, such as a file or a link to nothing.
fn refuse_file(path: &Path) -> Result<()> {
    match path.is_dir() || std::fs::symlink_metadata(path).is_err() {
        true => Ok(()),
        false => Err(RunError::NotADirectory { path: path.to_owned() }),
    }
}

/// Finds out what the directory is to a run of `config`, which with `extends` has to be there and may get more steps.
fn claim(disk: &Disk, path: &Path, config: &Config, extends: bool) -> Result<Claim> {
    match look(disk, path, CONFIG, &[claim::ID])? {
        Mark::Marked => {}
        _ if extends => return Err(extend::refused(path, ExtendError::NoRun)),
        Mark::Free => return Ok(Claim::Fresh),
        Mark::Foreign => return Err(RunError::NotARun { path: path.to_owned() }),
    }
    let stored = Config::read(&path.join(CONFIG))?;
    let extended = if extends { extend::extended(path, &stored, config)? } else { stored.clone() };
    refuse_others(path, &extended, config)?;
    begin::refuse_without_checkpoints(disk, path, [&stored, config])?;
    Ok(if extended == stored { Claim::Resumed } else { Claim::Extended(Box::new(extended)) })
}

/// Refuses a configuration whose results would differ from those of the `stored` one.
fn refuse_others(path: &Path, stored: &Config, config: &Config) -> Result<()> {
    let mut differences = stored.differences(config);
    // Where a checkpoint vouches for the rows and the model's files, they may lie elsewhere; who opens the run compares them.
    let vouched =
        PATHS.iter().any(|key| differences.iter().any(|d| d.key == *key)) && find::latest(path)?.is_some();
    differences.retain(|d| d.affects_result && !(vouched && PATHS.contains(&d.key.as_str())));
    match differences.is_empty() {
        true => Ok(()),
        false => Err(RunError::ConfigChanged { path: path.to_owned(), differences }),
    }
}

/// The digests of the logs at the checkpoint, or at the end of the run; true if it is the end. Every log is checked before one is cut. Of an end
/// after the checkpoint nothing is left that could be taken for the next one's.
fn held(
    disk: &Disk,
    run: &Path,
    checkpoint: Option<&Checkpoint>,
) -> Result<(BTreeMap<String, Digest>, bool)> {
    let Some(checkpoint) = checkpoint else { return Ok((BTreeMap::new(), false)) };
    let end = marks::read_end(disk, run)?;
    let is_lost = end.as_ref().is_some_and(|end| end.is_after(checkpoint));
    let end = end.filter(|end| checkpoint.step() == end.step);
    let ended = end.is_some();
    let mut held = end.map(|end| end.logs).unwrap_or_default();
    for name in LOGS {
        let at_checkpoint = checkpoint.log(name)?;
        let digest = *held.entry(name.to_owned()).or_insert(at_checkpoint);
        log::check(disk, run, name, digest)?;
    }
    if is_lost {
        // The mark last: without it the summary would not be known as one that is out of date.
        [SUMMARY, marks::END].iter().try_for_each(|name| disk.remove_file(&run.join(name)))?;
    }
    Ok((held, ended))
}

pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}
