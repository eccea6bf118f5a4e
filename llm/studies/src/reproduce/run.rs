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

use grpo_lambda_decoder::disk::{Disk, DiskError};
use grpo_lambda_decoder::generate::SamplingParams;
use grpo_lambda_decoder::model::{self, Decoder, weights};
use grpo_lambda_stats::{Interval, wilson};
use serde::{Deserialize, Serialize};

use super::axes::{PaperModel, benchmarks};
use super::grid::Cell;
use super::scale::Scale;
use crate::failure::Failure;
use crate::sweep::{Identity, Run, Start, Sweep, last_checkpoint};
use grpo_lambda_trainer::config::{Config, ConfigError};
use grpo_lambda_trainer::eval::completion::{CompletionRecord, ResponseOutcome};
use grpo_lambda_trainer::eval::score::{self, BenchmarkScores};
use grpo_lambda_trainer::eval::{self, CONFIDENCE_LEVEL};
use grpo_lambda_trainer::input::stops::Stops;
use grpo_lambda_trainer::input::task::Split;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::run::progress::SharedProgress;

/// Right answers out of so many problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Count {
    pub right: u64,
    pub n: u64,
}

impl Count {
    /// Accuracy with Wilson's 95 % interval; `None` without a problem.
    pub fn interval(self) -> Option<Interval> {
        wilson(self.right, self.n, CONFIDENCE_LEVEL)
    }
}

/// The result of a cell on a benchmark.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct CellScore {
    /// The benchmark, as in Tables 3 to 6.
    pub benchmark: String,
    /// Count of the paper's code: every problem, with 0 for an answer that cannot be read and for a prompt without room.
    pub all: Count,
    /// Count without the problems of the cell's training and without those two; `None` where the problems of training are not
    /// known, or none other is left.
    pub decontaminated: Option<Count>,
    /// Mean length of a response in tokens, between the ends of its 95 % interval over problems.
    pub tokens: Option<[f64; 3]>,
}

impl CellScore {
    /// Counts one response to each problem of a benchmark, and those to the problems that the cell did not train on.
    pub fn new(benchmark: &str, all: &BenchmarkScores, untrained: Option<&BenchmarkScores>) -> CellScore {
        let count = |of: &BenchmarkScores, without: usize| Count {
            right: of.count(ResponseOutcome::Right) as u64,
            n: (of.problems - without) as u64,
        };
        CellScore {
            benchmark: benchmark.to_owned(),
            all: count(all, 0),
            decontaminated: untrained.map(|own| count(own, own.uncounted())).filter(|own| own.n > 0),
            tokens: all.tokens.map(|i| [i.low, i.mid, i.high]),
        }
    }
}

/// The scores of a cell, stored in its directory.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct CellScores {
    /// The checkpoint that was evaluated, relative to the cell's directory.
    pub checkpoint: PathBuf,
    /// The evaluation in words: other words are another evaluation.
    pub how: String,
    /// A score for each benchmark, in the order of [`benchmarks`].
    pub scores: Vec<CellScore>,
}

const FILE: &str = "scores.json";

impl CellScores {
    /// Reads a cell's directory; `None` if the cell was not evaluated.
    pub fn read(directory: &Path) -> Result<Option<CellScores>, String> {
        let path = directory.join(FILE);
        let bytes = Disk::default().read(&path).map_err(|e| e.to_string())?;
        let Some(bytes) = bytes else { return Ok(None) };
        let wrong =
            |problem: String| format!("{}: {problem}; remove it to have it written again", path.display());
        let scores: CellScores =
            serde_json::from_slice(&bytes).map_err(|e| wrong(format!("not the scores of a cell: {e}")))?;
        let names: Vec<&str> = scores.scores.iter().map(|s| s.benchmark.as_str()).collect();
        if !names.iter().eq(benchmarks().iter().map(|b| &b.name)) {
            let names = names.join(", ");
            return Err(wrong(format!("has scores of {names}, not of the five benchmarks in order")));
        }
        for s in &scores.scores {
            if let Some(Count { right, n }) =
                [Some(s.all), s.decontaminated].into_iter().flatten().find(|c| c.right > c.n)
            {
                return Err(wrong(format!("{}: {right} right answers of {n}", s.benchmark)));
            }
        }
        Ok(Some(scores))
    }

    /// Writes them into a cell's directory.
    pub fn write(&self, directory: &Path) -> Result<(), DiskError> {
        let text = serde_json::to_string_pretty(self).expect("scores have a JSON form");
        Disk::default().replace(&directory.join(FILE), format!("{text}\n").as_bytes())
    }
}

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
pub type Evaluate<'a> = dyn Fn(TrainedCell<'_>) -> Result<(String, Vec<CellScore>), Failure> + 'a;

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

    /// The progress of a cell.
    pub fn status(&self, cell: &Cell) -> Result<CellStatus, Failure> {
        let directory = self.directory.join(cell.slug());
        if let Some(scores) = CellScores::read(&directory).map_err(Failure::refused)? {
            return Ok(CellStatus::Done(scores));
        }
        let begun = directory.join("run").join("config.toml").exists();
        Ok(if begun { CellStatus::Partial } else { CellStatus::Missing })
    }

    /// The cells with their progress.
    pub fn statuses(&self, cells: &[Cell]) -> Result<Vec<(Cell, CellStatus)>, Failure> {
        cells.iter().map(|cell| Ok((*cell, self.status(cell)?))).collect()
    }

    /// The progress of a model's supervised stage: done, partial or missing.
    pub fn supervised(&self, model: &PaperModel) -> Result<&'static str, Failure> {
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
    pub fn run(&self, cells: &[Cell], command: &str, evaluate: &Evaluate<'_>) -> Result<(), Failure> {
        let mut left = self.statuses(cells)?;
        left.retain(|(_, status)| !matches!(status, CellStatus::Done(_)));
        let mut models: Vec<&PaperModel> = left.iter().map(|(cell, _)| cell.model).collect();
        models.dedup();
        let start = |model: &&PaperModel| {
            let (name, directory) = (format!("{}, supervised", model.name), supervised(model));
            Ok(Start { name, directory, base: self.preset(model)? })
        };
        let starts = models.iter().map(start).collect::<Result<Vec<_>, Failure>>()?;
        let run = |(cell, _): &(Cell, CellStatus)| {
            let start = models.iter().position(|model| *model == cell.model).unwrap_or_default();
            let settings = self.scale.settings(cell, &starts[start].base);
            Run { name: cell.to_string(), directory: PathBuf::from(cell.slug()).join("run"), start, settings }
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
            let cell = &left[i].0;
            let trained = TrainedCell { cell, config: &done.config, checkpoint: &last, directory };
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

/// The seed of the toy problems.
const TEST_SEED: u64 = 0;

/// Evaluates a trained cell on toy problems in place of the benchmarks.
pub fn on_toy_problems(trained: TrainedCell<'_>) -> Result<(String, Vec<CellScore>), Failure> {
    let TrainedCell { cell, config, checkpoint, .. } = trained;
    let shape = model::ModelConfig::load(checkpoint)?;
    let parameters = weights::load(checkpoint, &shape)?;
    let decoder = Decoder::new(shape, parameters)?;
    let tokens = ModelTokenizer::load(checkpoint)?;
    let sampling = SamplingParams::new(config.rl.max_new_tokens, 0.0);
    let mut scores = Vec::new();
    for benchmark in benchmarks() {
        let progress = SharedProgress::new(&format!("evaluation, {}", benchmark.name), 0, benchmark.items());
        let watch = |done: usize, under_way| progress.lock().evaluated(done as u64, 1, under_way);
        // One test for all models: another seed would be another set of problems.
        let problems = Scale::test(benchmark).distinct(TEST_SEED, Split::Test, benchmark.items() as usize);
        let (stops, how) = (Stops::new(&tokens, &[]), (sampling, eval::EVAL_BATCH));
        let found = eval::evaluate(&decoder, &stops, (&problems, TEST_SEED), how, &watch)
            .map_err(|e| Failure::broke(format!("{cell}: evaluation: {e}")))?;
        progress.finish();
        let found: Vec<Vec<CompletionRecord>> = found.into_iter().map(|one| vec![one]).collect();
        // The embedded task holds its test problems out of training.
        let counted = score::scores(&benchmark.name, &found, &[]);
        scores.push(CellScore::new(&benchmark.name, &counted, Some(&counted)));
    }
    let limit = sampling.max_new_tokens;
    Ok((format!("greedy, up to {limit} tokens, stand-in problems of seed {TEST_SEED}"), scores))
}
