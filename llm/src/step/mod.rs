//! One step of training: responses are sampled and scored, get their credit, and the optimiser moves.

pub mod collective;
pub mod engine;
pub mod evidence;
pub mod micro_batch;
pub mod policy;
pub mod sft;
