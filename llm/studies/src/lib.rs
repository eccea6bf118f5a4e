//! Studies of runs: read back, drawn, compared, put beside the paper.
#![allow(missing_docs)] // internal to the workspace: names and comments say what is not obvious

#[cfg(test)]
#[path = "../../../tests/documented/page.rs"]
mod page;

pub mod compare;
pub mod curves;
pub mod doctor;
pub mod export;
pub mod figures;
pub mod paired;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod sweep;
pub mod terminal;
pub mod verdict;
