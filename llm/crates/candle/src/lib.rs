//! [`CandleEngine`]: training and sampling on candle's tensors, on a Mac, on a CUDA card or on the CPU; [`WithCandle`] builds it for a run.
//!
//! | module | holds |
//! | --- | --- |
//! | [`model`] | a decoder's tensors by name, and the interpreter of the program of its layers |
//! | [`ops`], [`product`] | the operations, differentiable by candle; the product, under the rules of candle's strictest device |
//! | [`attention`] | causal attention over rows of different lengths that share prefixes, and over a cache |
//! | [`pass`] | scores and gradients, a layer at a time |
//! | `decode` | sampling with a cache padded on the left |
//! | `engine`, `engines` | the engine, with the CPU's optimiser; how a run comes to it |
#![allow(missing_docs)] // internal to the workspace: names and comments say what is not obvious

pub mod attention;
mod decode;
mod engine;
mod engines;
pub mod model;
pub mod ops;
pub mod pass;
pub mod product;

pub use engine::CandleEngine;
pub use engines::WithCandle;

use candle_core::Device;
use grpo_lambda_decoder::device::DeviceError;

/// Candle's error as that of a device.
fn failed(device: &Device, error: candle_core::Error) -> DeviceError {
    let device = match device {
        Device::Cpu => "the CPU",
        Device::Cuda(_) => "the CUDA card",
        Device::Metal(_) => "Metal",
    };
    DeviceError::Call { call: "candle".to_owned(), device: device.to_owned(), reason: said(&error) }
}

/// The error in one line.
fn said(error: &candle_core::Error) -> String {
    error.to_string().replace('\n', "; ")
}
