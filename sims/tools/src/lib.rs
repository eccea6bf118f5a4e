//! The tools of grpo-lambda for users: methods and their settings, estimates of a trainer's groups, analyses of a token-MDP, and known bugs.
//!
//! The command line `sim` and the page in the browser call the same functions.
#![allow(missing_docs)] // internal to the workspace: names and comments say what is not obvious

pub mod estimate;
pub mod failure;
pub mod groups;
pub mod input;
#[doc(hidden)]
pub mod json;
pub mod length_direction;
pub mod mdp_command;
pub mod mdp_file;
pub mod method_args;
pub mod methods_list;
pub mod museum;
pub mod new_method;
pub mod program;
pub mod terminal;
pub mod write;

/// The default seed of every random stream: the paper's arXiv number, so that nobody picked it for its results.
pub const DEFAULT_SEED: u64 = 251_000_194;
/// Pixels of a PNG per SVG unit: sharp on screens of twice the usual density and in print at column width.
pub const PNG_SCALE: f64 = 2.0;
