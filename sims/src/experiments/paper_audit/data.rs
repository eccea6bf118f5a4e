//! The paper's Tables 1-6 as typed values.
//!
//! The numbers are committed in `paper/data/paper_tables.json` and compiled in. A score is kept as the
//! whole number of thousandths that is printed, so that sums and comparisons of printed values are exact.

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Deserializer};

const EMBEDDED: &str = include_str!("../../../../paper/data/paper_tables.json");

/// A printed accuracy in thousandths: `0.334` is `Score(334)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score(pub i32);

impl Score {
    /// The accuracy, 0 to 1.
    pub fn value(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl<'de> Deserialize<'de> for Score {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        let thousandths = (value * 1000.0).round();
        if !(0.0..=1000.0).contains(&thousandths) || (value * 1000.0 - thousandths).abs() > 1e-9 {
            let problem = format!("{value} is not an accuracy from 0 to 1 with three decimals");
            return Err(serde::de::Error::custom(problem));
        }
        Ok(Score(thousandths as i32))
    }
}

/// A benchmark of the paper's evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// AIME 2024.
    Aime,
    /// AMC.
    Amc,
    /// MATH-500.
    Math,
    /// MinervaMath.
    Minerva,
    /// OlympiadBench.
    Olympiad,
}

impl Benchmark {
    /// The five, in the order of Table 1.
    pub const ALL: [Benchmark; 5] =
        [Benchmark::Aime, Benchmark::Amc, Benchmark::Math, Benchmark::Minerva, Benchmark::Olympiad];

    /// Problems in the copy that understand-r1-zero evaluates, the code the paper names (App. B).
    pub fn items(self) -> i64 {
        match self {
            Benchmark::Aime => 30,
            Benchmark::Amc => 83,
            Benchmark::Math => 500,
            Benchmark::Minerva => 272,
            Benchmark::Olympiad => 675,
        }
    }
    /// As in Table 1.
    pub fn name(self) -> &'static str {
        ["AIME24", "AMC", "MATH", "Minerva", "Olympiad"][self as usize]
    }
    /// As in Tables 3-6.
    pub fn row_name(self) -> &'static str {
        ["AIME", "AMC", "MATH", "MIN", "OLBen"][self as usize]
    }
}

/// A model of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Qwen2.5-Math-1.5B-Instruct, Table 3.
    Qwen15,
    /// DeepSeek-R1-Distill-Qwen-1.5B, Table 4.
    R1Qwen15,
    /// R1-Distill-LLaMA-3B, Table 5.
    R1Llama3,
    /// DeepSeek-R1-Distill-Qwen-7B, Table 6.
    R1Qwen7,
}

impl Model {
    /// The four, in the order of Table 1.
    pub const ALL: [Model; 4] = [Model::Qwen15, Model::R1Qwen15, Model::R1Llama3, Model::R1Qwen7];
    /// Those on which all eight variants were trained.
    pub const SMALL: [Model; 2] = [Model::Qwen15, Model::R1Qwen15];

    /// As in Table 1.
    pub fn name(self) -> &'static str {
        ["Qwen-1.5B", "R1-Distill-Qwen-1.5B", "R1-Distill-LLaMA-3B", "R1-Distill-Qwen-7B"][self as usize]
    }
    /// The number of the table with its runs.
    pub fn table(self) -> usize {
        3 + self as usize
    }
}

/// A data set for the reinforcement learning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dataset {
    /// hiyouga/math12k.
    Math12k,
    /// riddickz/math-rl-16k.
    MathRl16k,
    /// GSM8K.
    Gsm8k,
    /// ORZ_MATH-57K.
    OrzMath57k,
}

impl Dataset {
    /// The four, in the order of Tables 3 and 4.
    pub const ALL: [Dataset; 4] = [Dataset::Math12k, Dataset::MathRl16k, Dataset::Gsm8k, Dataset::OrzMath57k];

    /// As in Tables 3-6.
    pub fn name(self) -> &'static str {
        ["math12k", "math-rl-16k", "gsm8k", "orzmath57k"][self as usize]
    }
}

/// Which weights the trace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum TraceStyle {
    /// None: the baseline.
    #[serde(rename = "GRPO")]
    Grpo,
    /// Early and late tokens.
    #[serde(rename = "both")]
    Both,
    /// Late tokens.
    #[serde(rename = "recent")]
    Recent,
}

/// Where the trace enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum UpdateStyle {
    /// Nowhere: the baseline.
    #[serde(rename = "GRPO")]
    Grpo,
    /// Into the log-probabilities of the ratio (Algorithm 1).
    #[serde(rename = "eps-trace")]
    Trace,
    /// Onto the loss of a token (Algorithm 2).
    #[serde(rename = "eps-weight")]
    Weight,
}

/// A column of Tables 3-6: GRPO or a variant of GRPO-λ.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Which weights.
    pub trace_style: TraceStyle,
    /// Where they enter.
    pub update_style: UpdateStyle,
    /// λ; `None` for GRPO.
    pub lam: Option<f64>,
}

impl Column {
    /// The baseline.
    pub const GRPO: Column =
        Column { trace_style: TraceStyle::Grpo, update_style: UpdateStyle::Grpo, lam: None };
    /// The one variant that was trained on every model: recent, ε-trace, λ = 0.99.
    pub const COMMON: Column =
        Column { trace_style: TraceStyle::Recent, update_style: UpdateStyle::Trace, lam: Some(0.99) };

    /// `recent/ε-trace/0.99`; `GRPO` for the baseline.
    pub fn name(&self) -> String {
        match (self.family(), self.lam) {
            (family, Some(lam)) => format!("{family}/{lam}"),
            (family, None) => family.to_owned(),
        }
    }
    /// The name without λ.
    pub fn family(&self) -> &'static str {
        match (self.trace_style, self.update_style) {
            (TraceStyle::Both, UpdateStyle::Trace) => "both/ε-trace",
            (TraceStyle::Both, UpdateStyle::Weight) => "both/ε-weight",
            (TraceStyle::Recent, UpdateStyle::Trace) => "recent/ε-trace",
            (TraceStyle::Recent, UpdateStyle::Weight) => "recent/ε-weight",
            _ => "GRPO",
        }
    }
}

/// One trained model and its printed results: a column of a block of Tables 3-6.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// What was trained.
    pub model: Model,
    /// On what.
    pub dataset: Dataset,
    /// How.
    pub column: Column,
    /// Printed scores in the order of [`Benchmark::ALL`].
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
    /// The five benchmarks in the order of [`Benchmark::ALL`], then the average.
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

/// A value of Table 2 for each size of model.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerSize<T> {
    /// 1.5B models.
    #[serde(rename = "1.5B")]
    pub small: T,
    /// The 3B model.
    #[serde(rename = "3B")]
    pub middle: T,
    /// The 7B model.
    #[serde(rename = "7B")]
    pub large: T,
}

/// Table 2, every printed line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the lines of Table 2")]
pub struct Table2 {
    pub caption: String,
    pub common: Common,
    pub sft: Sft,
    pub rl: Rl,
    pub grpo_lambda: LambdaSettings,
}

/// First lines of Table 2.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the lines of Table 2")]
pub struct Common {
    pub precision: String,
    pub distributed: String,
    pub num_devices: u32,
}

/// Table 2, "Supervised Finetuning stage".
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the lines of Table 2")]
pub struct Sft {
    pub epochs: u32,
    pub max_seq_len: u32,
    pub learning_rate: f64,
    pub per_device_batch_size: u32,
    pub grad_accum: u32,
    pub full_finetuning: PerSize<bool>,
}

/// Table 2, "GRPO and GRPO-λ configuration".
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the lines of Table 2")]
pub struct Rl {
    pub training_steps: PerSize<u32>,
    pub max_prompt_length: u32,
    pub group_size: u32,
    pub max_grad_norm: f64,
    pub beta: f64,
    pub accuracy_reward_weight: f64,
    pub format_reward_weight: f64,
    pub max_completion_length: PerSize<u32>,
    pub per_device_batch_size: PerSize<u32>,
    pub grad_accum: PerSize<u32>,
    pub full_finetuning: PerSize<bool>,
}

/// Table 2, "GRPO-λ specific configuration".
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the lines of Table 2")]
pub struct LambdaSettings {
    pub advantage_clamp_min: f64,
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
    /// Tables 3-6: per model, per data set, per column.
    pub runs: Vec<Run>,
}

impl Paper {
    /// The tables compiled into the program.
    ///
    /// # Errors
    /// If the committed file is damaged.
    pub fn embedded() -> anyhow::Result<Self> {
        Self::from_json(EMBEDDED).context("paper/data/paper_tables.json")
    }

    /// Reads tables of the form of `paper/data/paper_tables.json`.
    ///
    /// # Errors
    /// Names the line, or the table, block and row that do not fit.
    pub fn from_json(text: &str) -> anyhow::Result<Self> {
        let file: File = serde_json::from_str(text)?;
        ensure!(!file.provenance.is_empty(), "`provenance` is empty: where are these numbers from?");
        let t = file.tables;
        let mut runs = Vec::new();
        for (model, table) in Model::ALL.into_iter().zip([&t.table3, &t.table4, &t.table5, &t.table6]) {
            let name = format!("table{} ({})", model.table(), table.model);
            if table.columns.first() != Some(&Column::GRPO) {
                bail!("{name}: the first column must be GRPO, to which the others are compared");
            }
            let b = &table.blocks;
            for (dataset, block) in Dataset::ALL.into_iter().zip([&b.math12k, &b.math_rl, &b.gsm8k, &b.orz]) {
                for (row, scores) in block.rows() {
                    let (n, columns) = (scores.len(), table.columns.len());
                    ensure!(
                        n == columns,
                        "{name}, {}, {row}: {n} scores for {columns} columns",
                        dataset.name()
                    );
                }
                for (i, &column) in table.columns.iter().enumerate() {
                    runs.push(Run {
                        model,
                        dataset,
                        column,
                        scores: [block.aime[i], block.amc[i], block.math[i], block.min[i], block.olben[i]],
                        printed_average: block.avg[i],
                    });
                }
            }
        }
        let r = &t.table1.rows;
        let table1 = [r.qwen, r.r1_qwen, r.r1_llama, r.r1_qwen_7b];
        ensure!(!t.table1.caption.is_empty(), "table1: no caption");
        Ok(Paper { source: file.source, table1, table2: t.table2, runs })
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    source: String,
    provenance: String,
    tables: Tables,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    table1: Table1,
    table2: Table2,
    table3: ResultTable,
    table4: ResultTable,
    table5: ResultTable,
    table6: ResultTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table1 {
    caption: String,
    rows: Table1Rows,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table1Rows {
    #[serde(rename = "Qwen-1.5B")]
    qwen: SummaryPair,
    #[serde(rename = "R1-Distill-Qwen-1.5B")]
    r1_qwen: SummaryPair,
    #[serde(rename = "R1-Distill-LLaMA-3B")]
    r1_llama: SummaryPair,
    #[serde(rename = "R1-Distill-Qwen-7B")]
    r1_qwen_7b: SummaryPair,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultTable {
    model: String,
    columns: Vec<Column>,
    blocks: Blocks,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Blocks {
    math12k: Block,
    #[serde(rename = "math-rl-16k")]
    math_rl: Block,
    gsm8k: Block,
    #[serde(rename = "orzmath57k")]
    orz: Block,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    #[serde(rename = "AIME")]
    aime: Vec<Score>,
    #[serde(rename = "MATH")]
    math: Vec<Score>,
    #[serde(rename = "AMC")]
    amc: Vec<Score>,
    #[serde(rename = "OLBen")]
    olben: Vec<Score>,
    #[serde(rename = "MIN")]
    min: Vec<Score>,
    #[serde(rename = "AVG")]
    avg: Vec<Score>,
}

impl Block {
    fn rows(&self) -> [(&'static str, &Vec<Score>); 6] {
        [
            ("AIME", &self.aime),
            ("MATH", &self.math),
            ("AMC", &self.amc),
            ("OLBen", &self.olben),
            ("MIN", &self.min),
            ("AVG", &self.avg),
        ]
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
    }
}
