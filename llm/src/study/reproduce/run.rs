//! A grid in its directory: the status of its cells, and running those that are left.
//!
//! ```text
//! reproduce.toml                   scale and settings, so that another grid does not mix in
//! MODEL/supervised/                the supervised run that the model's cells start from
//! MODEL/DATASET/VARIANT/run/       the cell's reinforcement learning
//! MODEL/DATASET/VARIANT/scores.json   its scores on the benchmarks
//! ```
//! A cell belongs to no table: what Table 1 needs of Table 3's cells is found there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::{Disk, DiskError, TEMPORARY};
use grpo_lambda_decoder::generate::SamplingParams;
use grpo_lambda_decoder::model::{self, Decoder, weights};

use super::grid::Cell;
use super::models::PaperModel;
use super::paper::BENCHMARKS;
use super::scale::Scale;
use super::score::{CellScore, CellScores};
use crate::config::{Config, ConfigError};
use crate::eval;
use crate::input::stops::Stops;
use crate::input::task::Split;
use crate::input::tokens::{ModelTokenizer, TokenError};
use crate::run::progress::{SharedProgress, say};
use crate::run::{self, RunError};
use crate::study::compare::{CompareError, EtaClock, RunKind, finished};
use crate::train::{RunSummary, TrainError, train};

/// Why a grid stopped.
#[derive(Debug, thiserror::Error)]
pub enum GridError {
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{name}: {source}")]
    Run { name: String, source: Box<TrainError> },
    #[error(transparent)]
    Done(#[from] CompareError),
    #[error(transparent)]
    Directory(#[from] RunError),
    #[error(transparent)]
    Model(#[from] model::Error),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("{name}: evaluation: {problem}")]
    Eval {
        name: String,
        problem: String,
        /// Whether its input was refused, rather than the work broken off.
        refused: bool,
    },
    /// A signal asked for the end while a cell was evaluated.
    #[error("{name}: {problem}")]
    Stopped { name: String, problem: String, signal: u8 },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl GridError {
    /// The signal that asked for the end, if one did.
    pub fn signal(&self) -> Option<u8> {
        match self {
            GridError::Run { source, .. } => source.signal(),
            GridError::Done(e) => e.signal(),
            GridError::Stopped { signal, .. } => Some(*signal),
            _ => None,
        }
    }

    /// Whether the input was refused, rather than the work broken off.
    pub fn refused(&self) -> bool {
        match self {
            GridError::Refused(_) | GridError::Config(_) | GridError::Directory(_) => true,
            GridError::Run { source, .. } => source.refused(),
            GridError::Done(e) => e.refused(),
            GridError::Eval { refused, .. } => *refused,
            GridError::Model(_) | GridError::Token(_) | GridError::Disk(_) | GridError::Stopped { .. } => {
                false
            }
        }
    }
}

/// How far a cell is.
#[derive(Clone, Debug, PartialEq)]
pub enum CellStatus {
    /// Trained and evaluated.
    Done(CellScores),
    /// Begun.
    Partial,
    /// Not begun.
    Missing,
}

impl CellStatus {
    pub fn name(&self) -> &'static str {
        match self {
            CellStatus::Done(_) => "done",
            CellStatus::Partial => "partial",
            CellStatus::Missing => "missing",
        }
    }
}

/// A trained cell that is to be evaluated.
#[derive(Clone, Copy, Debug)]
pub struct TrainedCell<'a> {
    pub cell: &'a Cell,
    /// The configuration of its reinforcement learning.
    pub config: &'a Config,
    /// Its final checkpoint.
    pub checkpoint: &'a Path,
    /// Its directory, for what an evaluation keeps.
    pub directory: &'a Path,
}

/// How a trained cell is evaluated: in words, and the scores on [`BENCHMARKS`] in their order.
pub type Evaluate<'a> = dyn Fn(TrainedCell<'_>) -> Result<(String, Vec<CellScore>), GridError> + 'a;

/// A grid in its directory.
#[derive(Clone, Debug)]
pub struct Grid {
    /// On what it runs.
    pub scale: Scale,
    pub directory: PathBuf,
    /// Settings over the presets.
    pub overrides: Vec<String>,
}

const FILE: &str = "reproduce.toml";

impl Grid {
    /// The preset of a model in this grid.
    pub fn preset(&self, model: &PaperModel) -> Result<Config, ConfigError> {
        self.scale.preset(model, &self.overrides)
    }

    fn model(&self, model: &PaperModel) -> PathBuf {
        self.directory.join(model.slug())
    }

    fn cell(&self, cell: &Cell) -> PathBuf {
        self.directory.join(cell.slug())
    }

    /// How far a cell is.
    ///
    /// # Errors
    /// A file of the cell that cannot be read.
    pub fn status(&self, cell: &Cell) -> Result<CellStatus, GridError> {
        let directory = self.cell(cell);
        if let Some(scores) = CellScores::read(&directory).map_err(GridError::Refused)? {
            return Ok(CellStatus::Done(scores));
        }
        let begun = directory.join("run").join("config.toml").exists();
        Ok(if begun { CellStatus::Partial } else { CellStatus::Missing })
    }

    /// How far a model's supervised stage is: done, or begun, or missing.
    ///
    /// # Errors
    /// A summary that cannot be read.
    pub fn supervised(&self, model: &PaperModel) -> Result<&'static str, GridError> {
        let run = self.model(model).join("supervised");
        let done = crate::study::record::summary(&run).map_err(CompareError::from)?.is_some();
        Ok(match (done, run.join("config.toml").exists()) {
            (true, _) => "done",
            (false, true) => "partial",
            (false, false) => "missing",
        })
    }

    /// What identifies the grid, as TOML.
    fn to_toml(&self) -> String {
        let words = self.overrides.iter().map(|w| toml::Value::from(w.as_str())).collect::<Vec<_>>();
        format!("scale = \"{}\"\nsettings = {}\n", self.scale.name(), toml::Value::from(words))
    }

    /// Refuses a directory that holds a grid with other settings; `None` where there is no grid yet.
    pub fn check(&self) -> Result<Option<()>, GridError> {
        let path = self.directory.join(FILE);
        let disk = Disk::default();
        let Some(stored) = disk.read(&path)? else {
            let ours = format!("{FILE}{TEMPORARY}");
            return match disk.list(&self.directory)?.iter().find(|name| **name != ours) {
                None => Ok(None),
                Some(other) => Err(GridError::Refused(format!(
                    "{} is not a grid: it has no {FILE}, but it holds {other}",
                    self.directory.display()
                ))),
            };
        };
        let stored = String::from_utf8_lossy(&stored);
        let damaged = |problem: &str| GridError::Refused(format!("{}: {problem}", path.display()));
        let table: toml::Table = stored.parse().map_err(|e: toml::de::Error| damaged(e.message()))?;
        let now: toml::Table = self.to_toml().parse().map_err(|e: toml::de::Error| damaged(e.message()))?;
        let differences: Vec<String> = now
            .iter()
            .filter(|(key, value)| table.get(*key) != Some(value))
            .map(|(key, value)| {
                let old = table.get(key).map_or("(absent)".to_owned(), toml::Value::to_string);
                format!("{key}: {old} -> {value}")
            })
            .collect();
        match differences.is_empty() {
            true => Ok(Some(())),
            false => Err(GridError::Refused(format!(
                "{} holds a grid with other settings; use its own command, or another directory with --run DIR: {}",
                self.directory.display(),
                differences.join("; ")
            ))),
        }
    }

    /// Everything that would stop these cells, found before anything long starts.
    pub fn ready(&self, cells: &[Cell]) -> Result<(), GridError> {
        let mut seen = Vec::new();
        for cell in cells {
            if seen.contains(&&cell.model.name) {
                continue;
            }
            seen.push(&cell.model.name);
            let preset = self.preset(&cell.model)?;
            self.scale.cell(cell, &preset, Path::new("checkpoint"))?;
            if let Some(path) = self.scale.weights(&preset).filter(|p| !p.join("config.json").exists()) {
                return Err(GridError::Refused(format!(
                    "{}: no model in {}; get it with: hf download {} --local-dir {}; or name another place with model.checkpoint=DIR and --only model={}",
                    cell.model.name,
                    path.display(),
                    cell.model.id,
                    path.display(),
                    cell.model.slug()
                )));
            }
            for data in self.scale.data(&preset, cells, &cell.model) {
                // Its words name the command that gets it.
                crate::input::data::locate(&data)
                    .map_err(|e| GridError::Refused(format!("{}: {e}", cell.model.name)))?;
            }
        }
        Ok(())
    }

    /// Runs what is left of `cells`, one after another.
    ///
    /// # Errors
    /// [`GridError`]; what was done is kept, and the same call continues.
    pub fn run(&self, cells: &[Cell], command: &str, evaluate: &Evaluate<'_>) -> Result<(), GridError> {
        let mut left: Vec<Cell> = Vec::new();
        for cell in cells {
            if !matches!(self.status(cell)?, CellStatus::Done(_)) {
                left.push(cell.clone());
            }
        }
        let there = self.check()?.is_some();
        self.ready(&left)?;
        if !there {
            let disk = Disk::default();
            disk.create_directories(&self.directory)?;
            disk.replace(&self.directory.join(FILE), self.to_toml().as_bytes())?;
        }
        let mut models: Vec<&PaperModel> = Vec::new();
        for cell in &left {
            if !models.iter().any(|m| m.name == cell.model.name) {
                models.push(&cell.model);
            }
        }
        let mut clock = EtaClock::new(models.len(), left.len());
        let mut starts: BTreeMap<&str, (PathBuf, Config)> = BTreeMap::new();
        for model in models {
            let preset = self.preset(model)?;
            let path = self.model(model).join("supervised");
            let name = format!("{}, supervised", model.name);
            let begun = std::time::Instant::now();
            self.one(&name, &path, &self.scale.supervised(&preset)?, command, &clock)?;
            clock.done(RunKind::Sft, begun.elapsed().as_secs_f64());
            starts.insert(&model.name, (checkpoint(&path)?, preset));
        }
        for cell in &left {
            let Some((start, preset)) = starts.get(cell.model.name.as_str()) else { continue };
            let begun = std::time::Instant::now();
            let directory = self.cell(cell);
            let config = self.scale.cell(cell, preset, start)?;
            self.one(&cell.to_string(), &directory.join("run"), &config, command, &clock)?;
            let last = checkpoint(&directory.join("run"))?;
            let trained = TrainedCell { cell, config: &config, checkpoint: &last, directory: &directory };
            let (how, scores) = evaluate(trained)?;
            let checkpoint = last.strip_prefix(&directory).unwrap_or(&last).to_owned();
            CellScores { checkpoint, how, scores }.write(&directory)?;
            clock.done(RunKind::Rl, begun.elapsed().as_secs_f64());
        }
        Ok(())
    }

    /// Executes or resumes a run, unless its directory says that it is finished.
    fn one(
        &self,
        name: &str,
        path: &Path,
        config: &Config,
        command: &str,
        clock: &EtaClock,
    ) -> Result<RunSummary, GridError> {
        if let Some(done) = finished(path, config)? {
            return Ok(done);
        }
        say(&format!("{}: {name}", clock.line()));
        let failed = |source| GridError::Run { name: name.to_owned(), source: Box::new(source) };
        train(config, path, command).map_err(failed)
    }
}

/// Evaluates a trained cell on the stand-ins of the benchmarks.
pub fn on_stand_ins(trained: TrainedCell<'_>) -> Result<(String, Vec<CellScore>), GridError> {
    let TrainedCell { cell, config, checkpoint, .. } = trained;
    let shape = model::ModelConfig::load(checkpoint)?;
    let parameters = weights::load(checkpoint, &shape)?;
    let decoder = Decoder::new(shape, parameters)?;
    let tokens = ModelTokenizer::load(checkpoint)?;
    let sampling =
        SamplingParams { max_new_tokens: config.rl.max_new_tokens, min_new_tokens: 0, temperature: 0.0 };
    let mut scores = Vec::new();
    for benchmark in BENCHMARKS {
        let task = Scale::test(benchmark);
        let progress = SharedProgress::new(&format!("evaluation, {}", benchmark.name), 0, benchmark.items);
        let watch = |done: usize, under_way| progress.lock().evaluated(done as u64, 1, under_way);
        // One test for all models: another seed would be another set of problems.
        let problems = task.distinct(TEST_SEED, Split::Test, benchmark.items as usize);
        let found = eval::evaluate(
            &decoder,
            Stops::new(&tokens, &[]),
            (&problems, TEST_SEED),
            (sampling, eval::EVAL_BATCH),
            &watch,
        );
        let found = found.map_err(|e| GridError::Eval {
            name: cell.to_string(),
            problem: e.to_string(),
            refused: false,
        })?;
        progress.finish();
        scores.push(CellScore {
            benchmark: benchmark.name.to_owned(),
            correct: found.correct,
            n: found.n,
            ungradable: found.ungradable,
        });
    }
    let how =
        format!("greedy, up to {} tokens, stand-in problems of seed {TEST_SEED}", sampling.max_new_tokens);
    Ok((how, scores))
}

/// The seed of the stand-ins' problems.
const TEST_SEED: u64 = 0;

/// The final checkpoint of a run, as an absolute path.
fn checkpoint(run: &Path) -> Result<PathBuf, GridError> {
    let gone = || GridError::Refused(format!("{}: its final checkpoint is gone", run.display()));
    let path = run::latest(run)?.ok_or_else(gone)?.path().to_owned();
    std::path::absolute(&path).map_err(|e| GridError::Refused(format!("{}: {e}", path.display())))
}
