//! The decoder against transformers and PEFT, against finite differences, and against itself in another batch.
#![allow(clippy::unwrap_used)] // a test that cannot read its fixture should stop there

mod exact;
mod fields;
mod gradient;
#[path = "../../../../../tests/long/mod.rs"]
mod long;
mod lora_peft;
mod parity;
#[path = "../../../../../tests/recorded/mod.rs"]
mod recorded;
mod shared;
