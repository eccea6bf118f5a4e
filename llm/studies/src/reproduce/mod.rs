//! The paper's grid: which runs its Tables 1 and 3 to 6 are made of, what they take, doing them, and the same table filled.
//!
//! ```text
//! paper     the tables as printed, with the audit's caveats      models    the four models' shapes
//! grid      the cells of a table, and which are asked for        settings  a cell's preset and method
//! scale     the paper's models and benchmarks, or stand-ins      cost      tokens, operations, hours, disk
//! run       what is done in a directory, and doing the rest      layout    the table, ours beside the paper's
//! ```
//! What the paper leaves out is chosen, with a reason, in the presets `paper-*`.

pub mod cost;
pub mod datasets;
pub mod figure;
pub mod grid;
pub mod models;
pub mod paper;
pub mod readiness;
pub mod report;
pub mod run;
pub mod scale;
pub mod score;
pub mod settings;
pub mod table;
pub mod variant;
