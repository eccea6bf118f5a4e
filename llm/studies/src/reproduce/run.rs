//! A grid in its directory: the status of its cells, and running those that are left.
//!
//! ```text
//! reproduce.toml                   scale and settings, so that another grid does not mix in
//! MODEL/supervised/                the supervised run that the model's cells start from
//! MODEL/DATASET/VARIANT/run/       the cell's reinforcement learning
//! MODEL/DATASET/VARIANT/scores.json   its scores on the benchmarks
//! ```
//! A cell belongs to no table: what Table 1 needs of Table 3's cells is found there.

use std::path::{Path, PathBuf};

use grpo_lambda_decoder::generate::SamplingParams;
use grpo_lambda_decoder::model::{self, Decoder, weights};

use super::axes::{PaperModel, benchmarks};
use super::grid::Cell;
use super::scale::Scale;
use super::score::{CellScore, CellScores};
use crate::sweep::{Identity, Run, Start, Sweep, SweepError, last_checkpoint};
use grpo_lambda_trainer::config::{Config, ConfigError};
use grpo_lambda_trainer::eval::{self, Evaluation};
use grpo_lambda_trainer::input::stops::Stops;
use grpo_lambda_trainer::input::task::Split;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::run::progress::SharedProgress;

/// The progress of a cell.
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

/// Evaluates a trained cell: the evaluation in words, and the scores on [`benchmarks`] in their order.
pub type Evaluate<'a> = dyn Fn(TrainedCell<'_>) -> Result<(String, Vec<CellScore>), SweepError> + 'a;

/// A grid in its directory.
#[derive(Clone, Debug)]
pub struct Grid {
    /// On what it runs.
    pub scale: Scale,
    pub directory: PathBuf,
    /// Settings over the presets.
    pub overrides: Vec<String>,
}

impl Grid {
    /// The preset of a model in this grid.
    pub fn preset(&self, model: &PaperModel) -> Result<Config, ConfigError> {
        self.scale.preset(model, &self.overrides)
    }

    fn cell(&self, cell: &Cell) -> PathBuf {
        self.directory.join(cell.slug())
    }

    /// The progress of a cell.
    pub fn status(&self, cell: &Cell) -> Result<CellStatus, SweepError> {
        let directory = self.cell(cell);
        if let Some(scores) = CellScores::read(&directory).map_err(SweepError::Refused)? {
            return Ok(CellStatus::Done(scores));
        }
        let begun = directory.join("run").join("config.toml").exists();
        Ok(if begun { CellStatus::Partial } else { CellStatus::Missing })
    }

    /// The progress of a model's supervised stage: done, partial or missing.
    pub fn supervised(&self, model: &PaperModel) -> Result<&'static str, SweepError> {
        let run = self.directory.join(supervised(model));
        let done = crate::record::summary(&run)?.is_some();
        Ok(match (done, run.join("config.toml").exists()) {
            (true, _) => "done",
            (false, true) => "partial",
            (false, false) => "missing",
        })
    }

    pub fn identity(&self) -> Identity<'static> {
        let settings = self.overrides.iter().map(|w| toml::Value::from(w.as_str())).collect::<Vec<_>>();
        let choices = vec![("scale", self.scale.name().into()), ("settings", settings.into())];
        Identity { name: "reproduce", noun: "grid", choices, base: None }
    }

    /// Runs what is left of `cells`, one after another. After an error or a signal the same call continues.
    pub fn run(&self, cells: &[Cell], command: &str, evaluate: &Evaluate<'_>) -> Result<(), SweepError> {
        let mut left: Vec<Cell> = Vec::new();
        for cell in cells {
            if !matches!(self.status(cell)?, CellStatus::Done(_)) {
                left.push(*cell);
            }
        }
        let mut models: Vec<&PaperModel> = Vec::new();
        for cell in &left {
            if !models.contains(&cell.model) {
                models.push(cell.model);
            }
        }
        let start = |model: &&PaperModel| {
            let (name, directory) = (format!("{}, supervised", model.name), supervised(model));
            Ok(Start { name, directory, base: self.preset(model)? })
        };
        let starts = models.iter().map(start).collect::<Result<Vec<_>, SweepError>>()?;
        let run = |cell: &Cell| {
            let start = models.iter().position(|model| *model == cell.model).unwrap_or_default();
            Run {
                name: cell.to_string(),
                directory: PathBuf::from(cell.slug()).join("run"),
                start,
                settings: self.scale.settings(cell, &starts[start].base),
            }
        };
        let runs: Vec<Run> = left.iter().map(run).collect();
        for run in &runs {
            run.config(&starts[run.start].base, Path::new("checkpoint"))?;
        }
        let mut sweep = Sweep::open(&self.directory, &self.identity(), command)?;
        sweep.expect(starts.len(), runs.len());
        let started = sweep.start(starts)?;
        sweep.run(&runs, &started, |i, done| {
            let last = last_checkpoint(&done.directory)?;
            let directory = done.directory.parent().unwrap_or(&done.directory);
            let trained = TrainedCell { cell: &left[i], config: &done.config, checkpoint: &last, directory };
            let (how, scores) = evaluate(trained)?;
            let checkpoint = last.strip_prefix(directory).unwrap_or(&last).to_owned();
            Ok(CellScores { checkpoint, how, scores }.write(directory)?)
        })?;
        Ok(())
    }
}

/// The directory of a model's supervised stage, relative to the grid's.
fn supervised(model: &PaperModel) -> PathBuf {
    PathBuf::from(model.slug()).join("supervised")
}

/// Evaluates a trained cell on the stand-ins of the benchmarks.
pub fn on_stand_ins(trained: TrainedCell<'_>) -> Result<(String, Vec<CellScore>), SweepError> {
    let TrainedCell { cell, config, checkpoint, .. } = trained;
    let shape = model::ModelConfig::load(checkpoint)?;
    let parameters = weights::load(checkpoint, &shape)?;
    let decoder = Decoder::new(shape, parameters)?;
    let tokens = ModelTokenizer::load(checkpoint)?;
    let sampling =
        SamplingParams { max_new_tokens: config.rl.max_new_tokens, min_new_tokens: 0, temperature: 0.0 };
    let mut scores = Vec::new();
    for benchmark in benchmarks() {
        let task = Scale::test(benchmark);
        let progress = SharedProgress::new(&format!("evaluation, {}", benchmark.name), 0, benchmark.items());
        let watch = |done: usize, under_way| progress.lock().evaluated(done as u64, 1, under_way);
        // One test for all models: another seed would be another set of problems.
        let problems = task.distinct(TEST_SEED, Split::Test, benchmark.items() as usize);
        let found = eval::evaluate(
            &decoder,
            Stops::new(&tokens, &[]),
            (&problems, TEST_SEED),
            (sampling, eval::EVAL_BATCH),
            &watch,
        );
        let found = found.map_err(|e| SweepError::Broke(format!("{cell}: evaluation: {e}")))?;
        let found = Evaluation::counted(&found);
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
