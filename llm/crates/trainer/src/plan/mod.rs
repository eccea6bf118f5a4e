//! Predictions of a step before it runs: memory, operations, time.

pub mod cards;
pub mod memory;
pub mod roofline;
pub mod shapes;
pub mod stems;
pub mod synthetic;
