//! The engine on candle's tensors against the CPU's; the gradients of the CPU against candle.
#![allow(clippy::unwrap_used)] // a test that cannot make its tensors should stop there

#[path = "../../../decoder/tests/decoder/gradient/cases.rs"]
mod cases;
mod engine;
mod gradients;
mod sampling;
