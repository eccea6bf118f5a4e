//! Computations on a device against the CPU, with the kernels' code run by the PTX machine.
#![cfg(target_os = "linux")] // as CUDA is
#![allow(unsafe_code)] // the folder of compiled kernels is named by the environment
#![allow(clippy::unwrap_used)] // a test that cannot read its fixture should stop there

mod check;
mod contract;
mod decoder;
mod generate;
mod long;
mod lora;
mod machine;
mod memory;
mod on_ptx;
mod optim;
