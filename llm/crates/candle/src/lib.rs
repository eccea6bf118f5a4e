//! An engine on candle's tensors.
#![allow(missing_docs)]

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
