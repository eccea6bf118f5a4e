//! What a step takes before it is run: memory, operations, token weights.

pub mod memory;
pub mod roofline;
pub mod shapes;
pub mod synthetic;
pub mod token_weights;
