//! The language-model side: whole runs, commands through the binary, and what users do wrong.
#![allow(unsafe_code)] // the folder of compiled kernels is named by the environment
#![allow(clippy::unwrap_used)] // a test that cannot read its fixture should stop there

mod bad_data;
mod bad_input;
#[cfg(feature = "candle")]
mod candle;
mod checkpoint_files;
mod commands;
mod common;
mod compare;
mod data;
mod device;
mod documented;
#[path = "../../../tests/documented/mod.rs"]
mod documents;
mod engines;
mod eval;
mod eval_run;
mod fuzz;
#[path = "../../../tests/fuzzer/mod.rs"]
mod fuzzer;
#[cfg(target_os = "linux")]
mod gpu_on_policy;
#[cfg(target_os = "linux")]
mod gpu_synthetic;
#[cfg(target_os = "linux")]
mod gpu_train;
mod grade;
mod hostile;
mod invariances;
mod known_bugs;
mod layouts;
mod learn;
#[path = "../../../tests/long/mod.rs"]
mod long;
mod lora;
mod own_model;
mod prompt;
#[path = "../../../tests/recorded/mod.rs"]
mod recorded;
mod reproduce;
mod reward;
mod reward_program;
mod run_report;
mod shell;
mod stop_extend;
mod stops;
mod strangers;
mod train;
mod train_data;
mod trl_step;

/// The card whose kernels run on the CPU, as the tests of the GPU crate have it. CUDA is for Linux.
#[cfg(target_os = "linux")]
#[path = "../../crates/gpu/tests/gpu/machine.rs"]
mod machine;
