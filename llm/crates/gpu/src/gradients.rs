//! What a backward pass on a device adds to.

use std::sync::Arc;

use grpo_lambda_decoder::device::DeviceError;

use super::device::Device;
use super::layout::Layout;
use super::lora::{Adapter, AdapterLayout};
use super::weights::{Tensors, Weights};

/// Gradients in `f32` of what is trained: all weights, or an adapter. What is frozen has no gradient, neither computed nor in memory.
#[derive(Debug)]
pub enum Gradients {
    /// Of every weight.
    Weights(Weights<f32>),
    /// Of the adapter alone.
    Adapter(Adapter<f32>),
}

impl Gradients {
    /// Zeros for all weights.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    pub fn weights(device: &Arc<dyn Device>, layout: &Arc<Layout>) -> Result<Self, DeviceError> {
        Ok(Gradients::Weights(Weights::gradients(device, layout)?))
    }

    /// Zeros for an adapter.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    pub fn adapter(device: &Arc<dyn Device>, layout: &Arc<AdapterLayout>) -> Result<Self, DeviceError> {
        Ok(Gradients::Adapter(Adapter::gradients(device, layout)?))
    }

    /// By name.
    pub fn tensors(&self) -> &Tensors<f32> {
        match self {
            Gradients::Weights(weights) => weights.tensors(),
            Gradients::Adapter(adapter) => adapter.tensors(),
        }
    }

    /// Back to zero, for the next step.
    ///
    /// # Errors
    /// When the device fails.
    pub fn clear(&self) -> Result<(), DeviceError> {
        self.tensors().clear()
    }

    /// Those of the weights, when they are trained.
    pub(super) fn dense(&self) -> Option<&Weights<f32>> {
        match self {
            Gradients::Weights(weights) => Some(weights),
            Gradients::Adapter(_) => None,
        }
    }
}
