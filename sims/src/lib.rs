//! The experiments of grpo-lambda.

pub mod experiment;
pub mod experiments;
pub mod figure;
pub mod mdp_command;
pub mod mdp_file;
