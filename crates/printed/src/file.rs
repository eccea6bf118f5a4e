//! Reading `tables.json`: what a file must hold to be the paper's tables.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Column, Dataset, Model, Paper, Run, Score, SummaryPair, Table2};

const EMBEDDED: &str = include_str!("tables.json");

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
        let file: File = serde_json::from_str(text)?;
        require(!file.provenance.is_empty(), || {
            "`provenance` is empty: where are these numbers from?".to_owned()
        })?;
        let t = file.tables;
        require(!t.table1.caption.is_empty(), || "table1: no caption".to_owned())?;
        let (mut runs, mut printed_order) = (Vec::new(), Vec::new());
        for (model, table) in Model::ALL.into_iter().zip([t.table3, t.table4, t.table5, t.table6]) {
            runs.extend(table.runs(model)?);
            printed_order.push(table.blocks.0.iter().map(|(dataset, _)| *dataset).collect());
        }
        let r = t.table1.rows;
        let table1 = [r.qwen, r.r1_qwen, r.r1_llama, r.r1_qwen_7b];
        Ok(Paper { source: file.source, table1, table2: t.table2, runs, printed_order })
    }
}

fn require(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), PaperError> {
    if holds { Ok(()) } else { Err(PaperError::Table(otherwise())) }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    source: String,
    provenance: String,
    tables: FileTables,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTables {
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

impl ResultTable {
    /// The runs of this table: data sets in the order of [`Dataset::ALL`], columns as printed.
    fn runs(&self, model: Model) -> Result<Vec<Run>, PaperError> {
        let name = format!("table{} ({})", model.table(), self.model);
        require(self.columns.first() == Some(&Column::GRPO), || {
            format!("{name}: the first column must be GRPO, to which the others are compared")
        })?;
        if let Some(half) = self.columns.iter().find(|c| !c.is_whole()) {
            let problem = "has some of trace, update and λ; GRPO has none of them, a variant all three";
            return Err(PaperError::Table(format!("{name}: the column {half:?} {problem}")));
        }
        let mut runs = Vec::new();
        for dataset in Dataset::ALL {
            let blocks: Vec<&Block> =
                self.blocks.0.iter().filter(|(d, _)| *d == dataset).map(|(_, block)| block).collect();
            let [block] = blocks[..] else {
                let count = blocks.len();
                let problem = format!("{name}: {count} blocks for {} instead of one", dataset.name());
                return Err(PaperError::Table(problem));
            };
            block.check(&format!("{name}, {}", dataset.name()), self.columns.len())?;
            let columns = self.columns.iter().enumerate();
            runs.extend(columns.map(|(i, &column)| Run {
                model,
                dataset,
                column,
                scores: [block.aime[i], block.amc[i], block.math[i], block.min[i], block.olben[i]],
                printed_average: block.avg[i],
            }));
        }
        Ok(runs)
    }
}

/// The blocks of a table in the order in which they are printed.
struct Blocks(Vec<(Dataset, Block)>);

impl<'de> Deserialize<'de> for Blocks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Blocks;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a block of scores for each data set")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Blocks, A::Error> {
                let mut blocks = Vec::new();
                while let Some(block) = map.next_entry()? {
                    blocks.push(block);
                }
                Ok(Blocks(blocks))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
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
    /// That every row has a score for each of the table's columns.
    fn check(&self, place: &str, columns: usize) -> Result<(), PaperError> {
        let rows = [
            ("AIME", &self.aime),
            ("MATH", &self.math),
            ("AMC", &self.amc),
            ("OLBen", &self.olben),
            ("MIN", &self.min),
            ("AVG", &self.avg),
        ];
        for (row, scores) in rows {
            let n = scores.len();
            require(n == columns, || format!("{place}, {row}: {n} scores for {columns} columns"))?;
        }
        Ok(())
    }
}
