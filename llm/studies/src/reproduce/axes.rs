//! The axes of the paper's runs, read from `paper_runs.toml`: models and data sets; and the benchmarks of their
//! evaluation.

use std::sync::LazyLock;

use grpo_lambda_decoder::model;
use grpo_lambda_printed::{Benchmark, Column, Dataset, Model, Paper};
use grpo_lambda_trainer::plan::shapes;
use serde::Deserialize;

/// `paper_runs.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Axes {
    models: Vec<PaperModel>,
    datasets: Vec<PaperDataset>,
    benchmarks: Vec<PaperBenchmark>,
}

static AXES: LazyLock<Axes> = LazyLock::new(|| {
    toml::from_str(include_str!("paper_runs.toml")).expect("the compiled-in file is read by a test")
});

/// The printed tables.
pub static PRINTED: LazyLock<Paper> =
    LazyLock::new(|| Paper::embedded().expect("the compiled-in tables are read by a test"));

/// A model of the paper.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperModel {
    /// Its name in Table 1.
    pub name: String,
    /// The column of Table 2: `1.5B`, `3B` or `7B`.
    pub size: String,
    /// The preset of its runs.
    pub preset: String,
    /// The prompt template of its evaluation.
    pub template: String,
    /// `owner/name` on the Hugging Face hub.
    pub id: String,
    shape: String,
}

impl PaperModel {
    /// A name for directories.
    pub fn slug(&self) -> String {
        self.name.to_lowercase()
    }

    pub fn shape(&self) -> model::ModelConfig {
        shapes::named(&self.shape).expect("a test finds all four")
    }

    /// The model in the printed tables.
    pub fn printed(&self) -> Model {
        Model::ALL.into_iter().find(|m| m.name() == self.name).expect("a test finds all four")
    }

    /// The data sets of its runs, in the order of its table.
    pub fn datasets(&self) -> impl Iterator<Item = &'static PaperDataset> {
        PRINTED.datasets(self.printed()).iter().map(|d| dataset(*d))
    }

    /// The variants of its runs, the baseline first.
    pub fn variants(&self) -> Vec<Column> {
        PRINTED.columns(self.printed())
    }
}

/// A data set of the paper's reinforcement learning.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperDataset {
    /// Its name in Tables 3 to 6.
    pub name: String,
    /// `owner/name` on the Hugging Face hub, with subset and split where there are several.
    pub id: String,
    pub(super) substitute: Substitute,
}

impl PaperDataset {
    /// The data set in the printed tables.
    pub fn printed(&self) -> Dataset {
        Dataset::ALL.into_iter().find(|d| d.name() == self.name).expect("a test finds all four")
    }
}

/// A benchmark of the paper's evaluation.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperBenchmark {
    /// Its name in Tables 3 to 6.
    pub name: String,
    /// Its name for `llm-train eval --benchmarks`.
    pub key: String,
    pub(super) substitute: Substitute,
}

impl PaperBenchmark {
    /// The benchmark in the printed tables.
    pub fn printed(&self) -> Benchmark {
        Benchmark::ALL.into_iter().find(|b| b.row_name() == self.name).expect("a test finds all five")
    }

    /// Problems in the copy that understand-r1-zero evaluates, the code the paper names.
    pub fn items(&self) -> u64 {
        self.printed().items() as u64
    }
}

/// Word problems in place of a data set or benchmark.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Substitute {
    pub(super) steps: Vec<usize>,
    pub(super) max_operand: u32,
}

impl Substitute {
    pub(super) fn levels(&self) -> String {
        self.steps.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
    }

    pub(super) fn in_words(&self) -> String {
        let plural = if self.steps == [1] { "step" } else { "steps" };
        let levels = self.levels().replace(',', " or ");
        format!("word problems of {levels} {plural}, numbers to {}", self.max_operand)
    }
}

/// The four, in the order of Table 1.
pub fn models() -> &'static [PaperModel] {
    &AXES.models
}

/// The four, in the order of Tables 3 and 4.
pub fn datasets() -> &'static [PaperDataset] {
    &AXES.datasets
}

/// The five, in the order of Tables 3 to 6.
pub fn benchmarks() -> &'static [PaperBenchmark] {
    &AXES.benchmarks
}

fn dataset(printed: Dataset) -> &'static PaperDataset {
    datasets().iter().find(|d| d.name == printed.name()).expect("a test finds all four")
}
