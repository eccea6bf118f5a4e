//! The results that the paper prints, and what can be said of them without any run.
//!
//! *GRPO-λ: Credit Assignment improves LLM Reasoning*, arXiv 2510.00194v1, Tables 1 to 6. The numbers stand in `tables.json` next to
//! this file and are compiled in; every program of the workspace reads them here. [`consistency`] asks whether they agree with each other.
//!
//! ```
//! use grpo_lambda_printed::{Column, Dataset, Model, Paper, Score};
//!
//! let paper = Paper::embedded().expect("the committed tables");
//! let run = paper.run(Model::R1Qwen7, Dataset::MathRl16k, Column::COMMON).expect("a column of Table 6");
//! assert_eq!(run.printed_average, Score(476));
//! ```

mod column;
pub mod consistency;
mod file;
mod names;
mod settings;
mod tables;

pub use column::{Column, TraceStyle, UpdateStyle};
pub use file::PaperError;
pub use names::{Benchmark, Dataset, Model, Score};
pub use settings::{Common, LambdaSettings, PerSize, Rl, Sft, Table2};
pub use tables::{Paper, Run, SummaryPair, SummaryRow};
