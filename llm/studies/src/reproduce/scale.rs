//! The scale of a grid: the paper's models and benchmarks, or small toy ones that this machine can train.

use std::path::PathBuf;

use super::axes::{PaperBenchmark, PaperDataset, PaperModel, benchmarks, datasets};
use super::cost::Assumptions;
use super::grid::Cell;
use grpo_lambda_trainer::config::{Config, ConfigError, ModelSource};
use grpo_lambda_trainer::input::task::{Level, Task, TaskSource};

/// On what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The paper's models, data sets and benchmarks.
    Full,
    /// The embedded model and task: word problems of some levels stand for each data set and each benchmark.
    Tiny,
}

/// Settings of the preset's method that the baseline shares: all it has, but for the clamp, which Table 2 lists as
/// GRPO-λ's own.
fn shared_with_baseline(config: &Config) -> Vec<String> {
    let baseline: Vec<&str> = grpo_lambda::methods::find("grpo")
        .map(|m| (m.params)().into_iter().map(|p| p.key).collect())
        .unwrap_or_default();
    config
        .entries()
        .filter_map(|(key, value)| Some((key.strip_prefix("method.")?, value)))
        .filter(|(key, _)| *key != "clamp" && baseline.contains(key))
        .map(|(key, value)| format!("method.{key}={value}"))
        .collect()
}

/// The method of a cell, as settings over its model's preset.
pub fn method_overrides(cell: &Cell, preset: &Config) -> Vec<String> {
    match cell.variant.lam {
        None => [cell.method(), shared_with_baseline(preset)].concat(),
        Some(_) => cell.method(),
    }
}

impl Scale {
    /// Its name in `--scale`.
    pub fn name(self) -> &'static str {
        match self {
            Scale::Full => "full",
            Scale::Tiny => "tiny",
        }
    }

    /// The preset of a model's runs, with `key=value` settings over it.
    pub fn preset(self, model: &PaperModel, overrides: &[String]) -> Result<Config, ConfigError> {
        match self {
            Scale::Full => Config::resolve(&model.preset, overrides),
            Scale::Tiny => {
                let base = Config::resolve("paper-tiny", overrides)?;
                // Another seed makes another model of the same shape.
                let seed = base.seed.saturating_add(model.printed().table() as u64).min(i64::MAX as u64);
                base.with(&[format!("seed={seed}")])
            }
        }
    }

    /// The settings of a cell over its model's preset: its method and its data set.
    pub fn settings(self, cell: &Cell, preset: &Config) -> Vec<String> {
        let PaperDataset { id, substitute, .. } = cell.dataset;
        let task = match self {
            Scale::Full => vec![format!("task.data={id}")],
            Scale::Tiny => vec![
                format!("task.levels={}", substitute.levels()),
                format!("task.max_operand={}", substitute.max_operand),
            ],
        };
        [method_overrides(cell, preset), task].concat()
    }

    /// The data sets that a model's cells need: that of the supervised stage, and those of the cells.
    pub fn data(self, preset: &Config, cells: &[Cell], model: &PaperModel) -> Vec<String> {
        if self == Scale::Tiny {
            return Vec::new();
        }
        let mut all: Vec<String> = match &preset.task {
            TaskSource::Dataset(task) => vec![task.data.clone()],
            TaskSource::Embedded(_) => Vec::new(),
        };
        for cell in cells.iter().filter(|cell| cell.model == model) {
            if !all.contains(&cell.dataset.id) {
                all.push(cell.dataset.id.clone());
            }
        }
        all
    }

    /// The problems that stand for a benchmark at the tiny scale.
    pub fn test(benchmark: &PaperBenchmark) -> Task {
        let s = &benchmark.substitute;
        let level = |steps: &usize| Level { steps: *steps, max_operand: s.max_operand };
        Task::Stories(s.steps.iter().map(level).collect())
    }

    /// The directory of a model's weights, at full scale.
    pub fn weights(self, preset: &Config) -> Option<PathBuf> {
        match (self, &preset.model) {
            (Scale::Full, ModelSource::Checkpoint(path)) => Some(path.clone()),
            (Scale::Full, ModelSource::Random(_)) | (Scale::Tiny, _) => None,
        }
    }

    /// The toy models and problems, in lines for a reader; none at full scale.
    pub fn legend(self) -> Vec<String> {
        if self == Scale::Full {
            return Vec::new();
        }
        let head = "OURS ARE TOY MODELS, NOT THE PAPER'S: a small embedded model on generated word problems. \
                    The shape of the table and the methods are the paper's; the numbers cannot be compared with its \
                    numbers.";
        let model = "model: the preset paper-tiny, with another seed for each of the four";
        let data = datasets().iter().map(|d| format!("data set {}: {}", d.name, d.substitute.in_words()));
        let tests = benchmarks().iter().map(|b| {
            format!("benchmark {}: {}, held out, n = {}", b.name, b.substitute.in_words(), b.items())
        });
        [head, model].map(str::to_owned).into_iter().chain(data).chain(tests).collect()
    }

    /// The assumptions about a cell's lengths.
    pub fn assumptions(self, full: Assumptions, preset: &Config) -> Assumptions {
        let eval_tokens = preset.rl.max_new_tokens;
        match self {
            Scale::Full => full,
            Scale::Tiny => Assumptions { prompt_tokens: 40, demonstration_tokens: 70, eval_tokens, ..full },
        }
    }
}
