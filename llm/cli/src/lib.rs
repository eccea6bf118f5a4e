//! The command line of `llm-train`.
#![allow(missing_docs)] // the internals of a binary: names and comments say what is not obvious

#[cfg(test)]
#[path = "../../tests/llm/common/cases.rs"]
mod cases;
pub mod cli;
mod cli_advice;
pub mod commands;
#[cfg(test)]
#[path = "../../../tests/documented/help.rs"]
mod help;
mod words;
