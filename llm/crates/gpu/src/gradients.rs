//! Gradients on a device.

use std::sync::Arc;

use grpo_lambda_decoder::device::DeviceError;

use super::device::Device;
use super::layout::Layout;
use super::lora::{Adapter, AdapterLayout};
use super::weights::{Tensors, Weights};

/// Gradients in `f32` of all weights, or of an adapter. Frozen parameters get no gradient buffer.
#[derive(Debug)]
pub enum Gradients {
    /// Gradients of every weight.
    Weights(Weights<f32>),
    /// Gradients of the adapter alone.
    Adapter(Adapter<f32>),
}

impl Gradients {
    /// Zeros for all weights.
    ///
    /// # Errors
    /// Errors if there is too little memory or the device fails.
    pub fn weights(device: &Arc<dyn Device>, layout: &Arc<Layout>) -> Result<Self, DeviceError> {
        Ok(Gradients::Weights(Weights::gradients(device, layout)?))
    }

    /// Zeros for an adapter.
    ///
    /// # Errors
    /// Errors if there is too little memory or the device fails.
    pub fn adapter(device: &Arc<dyn Device>, layout: &Arc<AdapterLayout>) -> Result<Self, DeviceError> {
        Ok(Gradients::Adapter(Adapter::gradients(device, layout)?))
    }

    /// The tensors, by name.
    pub fn tensors(&self) -> &Tensors<f32> {
        match self {
            Gradients::Weights(weights) => weights.tensors(),
            Gradients::Adapter(adapter) => adapter.tensors(),
        }
    }

    /// Back to zero, for the next step.
    ///
    /// # Errors
    /// Errors if the device fails.
    pub fn clear(&self) -> Result<(), DeviceError> {
        self.tensors().clear()
    }

    /// The gradients of the weights, if they are trained.
    pub(super) fn dense(&self) -> Option<&Weights<f32>> {
        match self {
            Gradients::Weights(weights) => Some(weights),
            Gradients::Adapter(_) => None,
        }
    }
}
