//! The scale of a grid: the paper's models and benchmarks, or small stand-ins that this machine can train.

use std::path::{Path, PathBuf};

use super::cost::Assumptions;
use super::datasets::PaperDataset;
use super::grid::Cell;
use super::models::PaperModel;
use super::paper::{BENCHMARKS, PaperBenchmark};
use super::settings::method_overrides;
use grpo_lambda_trainer::config::{Config, ConfigError};
use grpo_lambda_trainer::input::task::{Level, Task, TaskSource};

/// On what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The paper's models, data sets and benchmarks.
    Full,
    /// The embedded model and task: word problems of some levels stand for each data set and each benchmark.
    Tiny,
}

/// A word-problem level that stands for a benchmark, or levels for a data set.
#[derive(Debug)]
struct StandIn {
    /// What it stands for, as in Tables 3 to 6.
    of: &'static str,
    /// Steps of the word problems.
    steps: &'static [u64],
    /// Their largest number.
    max_operand: u32,
}

/// What trains in place of each data set.
#[rustfmt::skip]
static DATASETS: &[StandIn] = &[
    StandIn { of: "math12k", steps: &[2, 3], max_operand: 6 },
    StandIn { of: "math-rl-16k", steps: &[3, 4], max_operand: 6 },
    StandIn { of: "gsm8k", steps: &[1, 2], max_operand: 6 },
    StandIn { of: "orzmath57k", steps: &[1, 2, 3, 4], max_operand: 6 },
];

/// What is asked in place of each benchmark: the harder the benchmark, the more steps, and once larger numbers than any in training.
#[rustfmt::skip]
static TESTS: &[StandIn] = &[
    StandIn { of: "AIME", steps: &[2], max_operand: 9 },
    StandIn { of: "MATH", steps: &[2, 3], max_operand: 6 },
    StandIn { of: "AMC", steps: &[1, 2], max_operand: 6 },
    StandIn { of: "OLBen", steps: &[4], max_operand: 6 },
    StandIn { of: "MIN", steps: &[3], max_operand: 6 },
];

fn stand_in(list: &'static [StandIn], name: &str) -> &'static StandIn {
    list.iter().find(|s| s.of == name).unwrap_or(&list[0])
}

fn levels(stand_in: &StandIn) -> String {
    stand_in.steps.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

fn spelled(s: &StandIn) -> String {
    let plural = if s.steps == [1] { "step" } else { "steps" };
    format!("word problems of {} {plural}, numbers to {}", levels(s).replace(',', " or "), s.max_operand)
}

impl Scale {
    /// As in `--scale`.
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
                let seed = base.seed.saturating_add(u64::from(model.table)).min(i64::MAX as u64);
                base.with(&[format!("seed={seed}")])
            }
        }
    }

    /// The configuration of the supervised stage that a model's cells share.
    pub fn supervised(self, preset: &Config) -> Result<Config, ConfigError> {
        preset.with(&["rl.steps=0", "method.name=grpo"])
    }

    /// The configuration of a cell's reinforcement learning from a supervised checkpoint.
    pub fn cell(self, cell: &Cell, preset: &Config, start: &Path) -> Result<Config, ConfigError> {
        let mut overrides = method_overrides(cell, preset);
        overrides.extend(["sft.steps=0".to_owned(), format!("model.checkpoint={}", start.display())]);
        overrides.extend(self.task(cell.dataset));
        preset.with(&overrides)
    }

    fn task(self, dataset: &PaperDataset) -> Vec<String> {
        match self {
            Scale::Full => vec![format!("task.data={}", dataset.id)],
            Scale::Tiny => {
                let s = stand_in(DATASETS, dataset.name);
                vec![format!("task.levels={}", levels(s)), format!("task.max_operand={}", s.max_operand)]
            }
        }
    }

    /// The data sets that are needed for a model's cells, as they are given to [`grpo_lambda_trainer::input::data::locate`].
    pub fn data(self, preset: &Config, cells: &[Cell], model: &PaperModel) -> Vec<String> {
        if self == Scale::Tiny {
            return Vec::new();
        }
        let supervised = match &preset.task {
            TaskSource::Dataset(task) => Some(task.data.clone()),
            TaskSource::Embedded(_) => None,
        };
        let mut all: Vec<String> = supervised.into_iter().collect();
        for cell in cells.iter().filter(|cell| cell.model == *model) {
            if !all.iter().any(|known| known == cell.dataset.id) {
                all.push(cell.dataset.id.to_owned());
            }
        }
        all
    }

    /// The problems that stand for a benchmark at the tiny scale.
    pub fn test(benchmark: &PaperBenchmark) -> Task {
        let s = stand_in(TESTS, benchmark.name);
        let level = |steps: &u64| Level { steps: *steps as usize, max_operand: s.max_operand };
        Task::Stories(s.steps.iter().map(level).collect())
    }

    /// Where a model's weights are looked for, at full scale.
    pub fn weights(self, preset: &Config) -> Option<PathBuf> {
        match (self, &preset.model) {
            (Scale::Full, grpo_lambda_trainer::config::ModelSource::Checkpoint(path)) => Some(path.clone()),
            _ => None,
        }
    }

    /// What stands for what, in lines for a reader; nothing at full scale.
    pub fn legend(self) -> Vec<String> {
        if self == Scale::Full {
            return Vec::new();
        }
        let mut lines = vec![
            "OURS ARE STAND-INS, NOT THE PAPER'S MODELS: a small embedded model on generated word problems. The shape of the table and the \
             methods are the paper's; the numbers cannot be compared with its numbers."
                .to_owned(),
            "model: the preset paper-tiny, with another seed for each of the four".to_owned(),
        ];
        lines.extend(DATASETS.iter().map(|s| format!("data set {}: {}", s.of, spelled(s))));
        let test = |b: &PaperBenchmark| {
            format!("benchmark {}: {}, held out, n = {}", b.name, spelled(stand_in(TESTS, b.name)), b.items)
        };
        lines.extend(BENCHMARKS.iter().map(test));
        lines
    }

    /// What the cost of a cell depends on beside its preset.
    pub fn assumptions(self, full: Assumptions, preset: &Config) -> Assumptions {
        match self {
            Scale::Full => full,
            Scale::Tiny => Assumptions {
                prompt_tokens: 40,
                demonstration_tokens: 70,
                eval_tokens: preset.rl.max_new_tokens,
                ..full
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda_trainer::input::task::Split;

    #[test]
    fn everything_has_its_own_stand_in() {
        for (list, names) in [
            (DATASETS, super::super::datasets::DATASETS.iter().map(|d| d.name).collect::<Vec<_>>()),
            (TESTS, BENCHMARKS.iter().map(|b| b.name).collect()),
        ] {
            assert_eq!(list.len(), names.len());
            for name in names {
                assert_eq!(stand_in(list, name).of, name);
            }
        }
    }

    #[test]
    fn a_stand_in_has_as_many_different_problems_as_its_benchmark() {
        for b in BENCHMARKS {
            let found = Scale::test(b).distinct(42, Split::Test, b.items as usize).len() as u64;
            assert_eq!(found, b.items, "{}", b.name);
        }
    }
}
