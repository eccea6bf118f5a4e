//! Evaluation: the accuracy of a model on problems, with its interval.
//!
//! Training measures its held-out problems with [`evaluate`]. `llm-train eval` is built from the rest:
//!
//! ```text
//! benchmark -> prompt (template) -> responses -> answer -> verdict       one line each in completions.jsonl
//!           -> scores of problems -> accuracy with its interval          summary.json, results.csv, the table
//!           -> report.html, figures/
//! ```
//! The directory of an evaluation:
//!
//! ```text
//! eval.toml                       what was asked of which model, written first
//! BENCHMARK/problems.jsonl        the problems with their references and prompts
//! BENCHMARK/completions.jsonl     every response with its verdict, in order; what is here is not done again
//! summary.json  results.csv       the numbers
//! report.html   figures/          for a person
//! lock                            held by the process that works here
//! ```
//! A process may be killed at any moment: the same command continues at the first incomplete problem and writes the same bytes.

pub mod answers;
pub mod benchmark;
pub mod completion;
mod held_out;
pub mod origin;
pub mod power;
pub mod report;
pub mod sampler;
pub mod score;
pub mod settings;
pub mod shots;
pub mod store;
pub mod summary;
pub mod vote;

pub use held_out::{CONFIDENCE_LEVEL, EVAL_BATCH, EvalError, Evaluation, QUEUE, eval_slots, evaluate};
