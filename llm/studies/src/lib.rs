//! Studies of runs: read back, drawn, compared, compared with the paper.
//!
//! Some parts look equally and stay apart:
//!
//! | parts | shared | reason |
//! | --- | --- | --- |
//! | [`compare`], [`paired`] | [`significance`] | One resamples seeds and the other problems, so their intervals and tests differ. |
//! | [`compare`], [`reproduce`] | [`sweep`] | The second fills printed tables, whose audit and caveats no comparison has. |
//! | `reproduce --dry-run`, `train --dry-run` | [`reproduce::cost`] | The first plans 92 runs without weights, tokenizers or data, which the second opens. |
//!
//! `doctor/checks.toml` and `reproduce/paper_runs.toml` hold what is data.
#![allow(missing_docs)] // internal to the workspace: names and comments say what is not obvious

#[cfg(test)]
#[path = "../../../tests/documented/page.rs"]
mod page;

pub mod compare;
pub mod curves;
pub mod doctor;
pub mod export;
pub mod failure;
pub mod figures;
pub mod paired;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod significance;
pub mod sweep;
pub mod terminal;
