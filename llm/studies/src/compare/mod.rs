//! Compares several methods from the same supervised starts, over several seeds, with intervals.
//!
//! ```text
//! DIR/compare.toml          the methods, the seeds and the common configuration, written first
//! DIR/supervised/seed-0/    the supervised stage of a seed, a run directory; all methods of the seed start from its
//! checkpoint
//! DIR/METHOD/seed-0/        RL with a method from there, a run directory
//! DIR/compare.csv  .json    the result; the same bytes however often the comparison was interrupted
//! DIR/figures/compare.*     accuracy and reward against RL steps
//! ```
//! A seed decides the initial weights, the problems of both stages and the held-out problems, and all methods share
//! them, so that methods are compared in pairs by seed.
//!
//! [`crate::paired`] is another comparison: of two evaluations (`llm-train eval`), in pairs by problem.

mod differing;
mod entry;
mod figure;
mod plan;
mod report;
mod run;
mod statistics;

pub use differing::{DIFFERING, DifferingSetting, differing, in_words};
pub use entry::{Entry, parse as parse_methods};
pub use figure::figure;
pub use plan::Plan;
pub use report::{csv, finding, json, table};
pub use run::{ComparisonResult, MethodScores, run};
pub use statistics::{IqmEstimate, MethodDifference, MethodStanding, fewest_seeds, standings};
