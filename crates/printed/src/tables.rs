//! Tables 1 and 3 to 6 as typed values.

use serde::Deserialize;

use super::{Column, Dataset, Model, Score, Table2};

/// One trained model and its printed results: a column of a block of Tables 3-6.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// The model trained.
    pub model: Model,
    /// On what.
    pub dataset: Dataset,
    /// The variant.
    pub column: Column,
    /// Printed scores in the order of [`Benchmark::ALL`](super::Benchmark::ALL).
    pub scores: [Score; 5],
    /// The printed AVG.
    pub printed_average: Score,
}

impl Run {
    /// Mean of the five printed scores.
    pub fn mean(&self) -> f64 {
        f64::from(self.sum()) / 5000.0
    }
    /// Sum of the five printed scores in thousandths.
    pub fn sum(&self) -> i32 {
        self.scores.iter().map(|s| s.0).sum()
    }
    /// `R1-Distill-Qwen-1.5B on gsm8k, recent/ε-trace/0.99`.
    pub fn name(&self) -> String {
        format!("{} on {}, {}", self.model.name(), self.dataset.name(), self.column.name())
    }
}

/// A row of Table 1.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the column heads of Table 1")]
pub struct SummaryRow {
    #[serde(rename = "Average")]
    pub average: Score,
    #[serde(rename = "AIME24")]
    pub aime: Score,
    #[serde(rename = "AMC")]
    pub amc: Score,
    #[serde(rename = "MATH")]
    pub math: Score,
    #[serde(rename = "Minerva")]
    pub minerva: Score,
    #[serde(rename = "Olympiad")]
    pub olympiad: Score,
}

impl SummaryRow {
    /// The five benchmarks in the order of [`Benchmark::ALL`](super::Benchmark::ALL), then the average.
    pub fn cells(&self) -> [Score; 6] {
        [self.aime, self.amc, self.math, self.minerva, self.olympiad, self.average]
    }
}

/// The two rows of Table 1 of a model.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummaryPair {
    /// The baseline.
    #[serde(rename = "GRPO")]
    pub grpo: SummaryRow,
    /// The method.
    #[serde(rename = "GRPO-lambda")]
    pub lambda: SummaryRow,
}

/// The paper's tables.
#[derive(Clone, Debug)]
pub struct Paper {
    /// Title, arXiv number and tables.
    pub source: String,
    /// Table 1 in the order of [`Model::ALL`].
    pub table1: [SummaryPair; 4],
    /// Table 2.
    pub table2: Table2,
    /// Tables 3-6: per model, per data set in the order of [`Dataset::ALL`], per column.
    pub runs: Vec<Run>,
    /// The data sets in the order of each model's table, models in the order of [`Model::ALL`].
    pub(super) printed_order: Vec<Vec<Dataset>>,
}

impl Paper {
    /// The data sets in the order in which a model's table prints them.
    pub fn datasets(&self, model: Model) -> &[Dataset] {
        &self.printed_order[model as usize]
    }

    /// The run of a column of Tables 3-6, if there is one.
    pub fn run(&self, model: Model, dataset: Dataset, column: Column) -> Option<&Run> {
        self.runs.iter().find(|r| r.model == model && r.dataset == dataset && r.column == column)
    }

    /// The columns of a model's table, GRPO first.
    pub fn columns(&self, model: Model) -> Vec<Column> {
        let first = Dataset::ALL[0];
        self.runs.iter().filter(|r| r.model == model && r.dataset == first).map(|r| r.column).collect()
    }

    /// The four runs of a column, in the order of [`Dataset::ALL`]; empty if there is no such column.
    pub fn row_of_runs(&self, model: Model, column: Column) -> Vec<&Run> {
        Dataset::ALL.into_iter().filter_map(|d| self.run(model, d, column)).collect()
    }
}
