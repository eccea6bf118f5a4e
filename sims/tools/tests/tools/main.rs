//! The tools of `sim` as functions: what they read, refuse and write.
#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

mod estimate;
mod failure;
mod groups;
mod input;
mod json;
mod length_direction;
mod mdp_command;
mod mdp_file;
mod new_method;
mod program;
mod write;
