//! Tables 1 and 3 to 6 as typed values.

use serde::Deserialize;

use super::{Column, Dataset, Model, Score, Table2, file};

const EMBEDDED: &str = include_str!("tables.json");

/// One trained model and its printed results: a column of a block of Tables 3-6.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// What was trained.
    pub model: Model,
    /// On what.
    pub dataset: Dataset,
    /// How.
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

/// Why a text is not the paper's tables.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// It is no JSON of the expected form.
    #[error("tables of the paper: {0}")]
    Form(#[from] serde_json::Error),
    /// A table contradicts itself.
    #[error("{0}")]
    Table(String),
}

impl Paper {
    /// The tables compiled into the program.
    ///
    /// # Errors
    /// If the committed file is damaged.
    pub fn embedded() -> Result<Self, PaperError> {
        Self::from_json(EMBEDDED)
    }

    /// Reads tables of the form of `src/paper/tables.json`.
    ///
    /// # Errors
    /// Names the line, or the table, block and row that do not fit.
    pub fn from_json(text: &str) -> Result<Self, PaperError> {
        file::read(text)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_tables_hold_92_runs_of_5_benchmarks() {
        let paper = Paper::embedded().expect("the committed file");
        assert_eq!(paper.runs.len(), 92);
        let run = paper.run(Model::R1Qwen7, Dataset::MathRl16k, Column::COMMON).expect("Table 6");
        assert_eq!(run.printed_average, Score(476));
        assert_eq!(run.scores, [267, 578, 792, 346, 397].map(Score));
        assert_eq!(paper.columns(Model::R1Llama3).len(), 3);
        assert!(paper.run(Model::R1Qwen7, Dataset::Gsm8k, paper.columns(Model::Qwen15)[1]).is_none());
    }

    #[test]
    fn data_sets_keep_the_order_in_which_each_table_prints_them() {
        use Dataset::{Gsm8k, Math12k, MathRl16k, OrzMath57k};
        let paper = Paper::embedded().expect("the committed file");
        for model in Model::ALL {
            let expected = match model {
                Model::R1Llama3 => [Math12k, Gsm8k, OrzMath57k, MathRl16k],
                _ => Dataset::ALL,
            };
            assert_eq!(paper.datasets(model), expected, "{}", model.name());
        }
    }

    #[test]
    fn damage_is_named_where_it_is() {
        let refused = |from: &str, to: &str| {
            let damaged = EMBEDDED.replacen(from, to, 1);
            assert_ne!(damaged, EMBEDDED, "{from}");
            Paper::from_json(&damaged).expect_err("damaged").to_string()
        };
        let short = refused("\"AMC\": [0.386, 0.458, ", "\"AMC\": [0.386, ");
        assert_eq!(short, "table3 (Qwen2.5-Math-1.5B-Instruct), math12k, AMC: 8 scores for 9 columns");
        assert!(refused("0.386", "38.6").contains("38.6 is not an accuracy from 0 to 1"));
        assert!(refused("0.386", "0.3861").contains("three decimals"));
        assert!(refused("\"Minerva\"", "\"Minvera\"").contains("unknown field `Minvera`"));
        assert!(refused("\"eps-trace\"", "\"trace\"").contains("unknown variant `trace`"));
        assert!(refused("\"gsm8k\": {", "\"gsm9k\": {").contains("unknown variant `gsm9k`"));
        let twice = refused("\"gsm8k\": {", "\"math12k\": {");
        assert_eq!(twice, "table3 (Qwen2.5-Math-1.5B-Instruct): 2 blocks for math12k instead of one");
    }

    #[test]
    fn a_column_has_all_of_trace_update_and_lambda_or_none() {
        let column = "{\"trace_style\": \"both\", \"update_style\": \"eps-trace\", \"lam\": 0.98}";
        for (wrong, half) in [("\"both\"", "\"GRPO\""), ("\"eps-trace\"", "\"GRPO\""), ("0.98", "null")] {
            let damaged = EMBEDDED.replacen(column, &column.replace(wrong, half), 1);
            let error = Paper::from_json(&damaged).expect_err(half).to_string();
            assert!(error.starts_with("table3 (Qwen2.5-Math-1.5B-Instruct): the column Column {"), "{error}");
        }
    }
}
