//! The paper's grid: the runs of its Tables 1 and 3 to 6, their cost, their execution as a [sweep](crate::sweep), and
//! the tables filled.
//!
//! ```text
//! axes    the paper's models, data sets and benchmarks      grid    the cells of a table, and the selection of some
//! scale   the paper's models and benchmarks, or toy ones   cost    tokens, operations, hours, disk: the plan
//! run     the status of a directory, and doing the rest     table   the printed numbers, ours next to them
//! figures Figures 3 to 15, from the runs' curves and scores
//! ```
//! The presets `paper-*` choose what the paper leaves out, with a reason.

pub mod axes;
pub mod cost;
pub mod figures;
pub mod grid;
pub mod readiness;
pub mod run;
pub mod scale;
pub mod table;
