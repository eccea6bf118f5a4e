//! The paper's grid: the runs of its Tables 1 and 3 to 6, their cost, their execution as a [sweep](crate::sweep), and the tables filled.
//!
//! ```text
//! paper     the tables as printed, with the audit's caveats      axes   the paper's models, data sets, variants and benchmarks
//! grid      the cells of a table, and the selection of some      scale  the paper's models and benchmarks, or stand-ins; a cell's settings
//! run       the status of a directory, and doing the rest        cost   tokens, operations, hours, disk
//! table     the table, ours beside the paper's                   report, figure   its forms
//! ```
//! The presets `paper-*` choose what the paper leaves out, with a reason.

pub mod axes;
pub mod cost;
pub mod figure;
pub mod grid;
pub mod paper;
pub mod readiness;
pub mod report;
pub mod run;
pub mod scale;
pub mod score;
pub mod table;
