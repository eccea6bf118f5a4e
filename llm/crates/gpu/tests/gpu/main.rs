//! Computations on a device against the CPU, with the kernels run by an emulator.
#![allow(unsafe_code)] // the emulated device's memory is addressed by number
#![allow(clippy::unwrap_used)] // a test that cannot read its fixture should stop there

mod check;
mod contract;
mod decoder;
mod emulator;
mod generate;
mod kernels;
#[path = "../../../../../tests/long/mod.rs"]
mod long;
mod lora;
mod machine;
mod memory;
mod on_ptx;
mod optim;
