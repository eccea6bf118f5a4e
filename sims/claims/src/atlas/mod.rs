//! The atlas: every method of the seed papers and its rivals against exact ground truth, one question an experiment.
//!
//! `sim atlas` runs all of it in the quick version, `sim atlas --full` in the long one, which writes its rows as it goes and goes on after a
//! stop. The page that shows it is `paper/atlas.md`.

use crate::experiment::Experiment;

pub(crate) mod entries;
mod learning;
mod off_policy;
mod tasks;
pub mod updates;

/// The page of the atlas under the output folder.
pub const PAGE: &str = "atlas.md";

/// Every experiment of the atlas, in the order of its page.
pub static REGISTRY: &[&Experiment] = &[&updates::EXPERIMENT, &learning::EXPERIMENT, &off_policy::EXPERIMENT];
