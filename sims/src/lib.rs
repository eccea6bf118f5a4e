//! The laboratory of grpo-lambda: every claim with its verdict, data and figure, behind the command `sim`.
#![allow(missing_docs)] // the internals of a binary: names and comments say what is not obvious

pub mod atlas;
pub mod cli;
pub mod estimate;
pub mod experiment;
pub mod experiments;
pub mod failure;
pub mod groups;
mod input;
mod json;
pub mod mdp_command;
pub mod mdp_file;
pub mod method_args;
pub mod methods_list;
pub mod museum;
pub mod report;
pub mod run;
pub mod store;
mod terminal;
mod training;
pub mod write;

pub use grpo_lambda_figure as figure;
