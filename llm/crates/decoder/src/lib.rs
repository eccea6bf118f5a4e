#![doc = include_str!("../README.md")]

#[cfg(test)]
#[path = "../../../tests/llm/common/cases.rs"]
mod cases;
pub mod device;
pub mod disk;
pub mod distribution;
pub mod generate;
pub mod lora;
mod lora_error;
pub mod mismatch;
pub mod model;
pub mod optim;
pub mod pack;
pub mod rng;
pub mod slots;
pub mod tensor_file;
pub mod truncation;
