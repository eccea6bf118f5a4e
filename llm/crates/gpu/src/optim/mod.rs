//! AdamW on a device: the settings, the equations and the saved state of [`grpo_lambda_decoder::optim::AdamW`].
//!
//! Weights in `f32`, their rounding residuals and both moments are in the device's memory or, if that is short, in the host's ([`StatePlace`]).
//! The joint norm is summed in `f64` in a fixed order, though not the CPU's: the norm, and through clipping the step, can differ from the CPU's
//! in the last place. Given the same factor of the gradient, the step has the CPU's bits, wherever the state is.

mod on_device;
mod on_host;

use std::io::Write;
use std::sync::Arc;

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::weights::{Parameters, Tensor};
use grpo_lambda_decoder::optim::{
    AdamWSettings, OptimError, SavedState, StepOutcome, WriteStateError, write_state,
};
use grpo_lambda_decoder::tensor_file::bytes_of;
use on_device::DeviceState;
use on_host::HostState;

use super::array::Array;
use super::flat::{FlatLayout, TensorInfo};
use super::gradients::Gradients;
use super::kernels::{Kernels, SumOfSquares};
use super::ptr::Ptr;
use super::weights::Tensors;

/// The place of an optimiser's state: 16 bytes a weight, 12 without compensated summation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatePlace {
    /// The device's memory.
    #[default]
    Device,
    /// The host's memory. The host moves the weights: gradients and rounded weights cross the link at every step.
    Host,
}

impl StatePlace {
    /// Their names.
    pub const NAMES: [&str; 2] = ["device", "host"];

    /// The place of this name.
    pub fn parse(name: &str) -> Option<StatePlace> {
        match name {
            "device" => Some(StatePlace::Device),
            "host" => Some(StatePlace::Host),
            _ => None,
        }
    }
}

#[derive(Debug)]
enum State {
    Device(DeviceState),
    Host(HostState),
}

/// AdamW over the tensors of one layout.
#[derive(Debug)]
pub struct GpuAdamW {
    kernels: Kernels,
    settings: AdamWSettings,
    flat: Arc<FlatLayout>,
    state: State,
    /// Parts of [`SumOfSquares`].
    parts: Array<f64>,
}

impl GpuAdamW {
    /// An optimiser of tensors laid out as `weights`, at these values; those not in `parameters` are at zero. Its state is on the device.
    ///
    /// # Errors
    /// Errors if there is too little memory or the device fails.
    ///
    /// # Panics
    /// Panics if `parameters` has a name or size that `weights` has not.
    pub fn new(
        kernels: Kernels,
        settings: AdamWSettings,
        weights: &Tensors,
        parameters: &Parameters<f32>,
    ) -> Result<Self, DeviceError> {
        GpuAdamW::placed(StatePlace::Device, kernels, settings, weights, parameters)
    }

    /// [`GpuAdamW::new`] with its state in this place.
    ///
    /// # Errors
    /// The errors of [`GpuAdamW::new`].
    ///
    /// # Panics
    /// Panics if [`GpuAdamW::new`] does.
    pub fn placed(
        place: StatePlace,
        kernels: Kernels,
        settings: AdamWSettings,
        weights: &Tensors,
        parameters: &Parameters<f32>,
    ) -> Result<Self, DeviceError> {
        let flat = weights.flat().clone();
        let known = |name: &String| flat.tensor(name).is_some();
        assert!(parameters.keys().all(known), "parameters of another model");
        let state = match place {
            StatePlace::Device => {
                State::Device(DeviceState::new(&kernels, settings.compensated, weights, parameters)?)
            }
            StatePlace::Host => State::Host(HostState::new(&kernels.device, &settings, weights, parameters)?),
        };
        let parts = Array::zeros(&kernels.device, "workspace", 2 * SumOfSquares::PARTS as usize)?;
        Ok(GpuAdamW { kernels, settings, flat, state, parts })
    }

    /// Steps applied so far; skipped ones do not count.
    pub fn steps(&self) -> u64 {
        match &self.state {
            State::Device(state) => state.steps,
            State::Host(state) => state.steps(),
        }
    }

    /// The `f32` weights, if they are on the device.
    pub fn master(&self) -> Option<&Tensors<f32>> {
        match &self.state {
            State::Device(state) => Some(&state.master),
            State::Host(_) => None,
        }
    }

    /// Bytes of the state in the host's memory.
    pub fn host_bytes(&self) -> u64 {
        match &self.state {
            State::Device(_) => 0,
            State::Host(state) => state.bytes(),
        }
    }

    /// A copy of the `f32` weights.
    ///
    /// # Errors
    /// Errors if the device fails.
    pub fn parameters(&self) -> Result<Parameters<f32>, DeviceError> {
        let tensor = |(name, info): (&str, &TensorInfo)| {
            let data = self.array("weights", name)?;
            Ok((name.to_owned(), Tensor { shape: info.shape.clone(), data }))
        };
        self.flat.tensors().map(tensor).collect()
    }

    /// Moves every weight against its gradient with learning rate `rate`; `weights` become the rounded result.
    ///
    /// # Errors
    /// Errors if the device fails.
    ///
    /// # Panics
    /// Panics if gradients or weights have another layout.
    pub fn step(
        &mut self,
        rate: f64,
        gradients: &Gradients,
        weights: &Tensors,
    ) -> Result<StepOutcome, DeviceError> {
        let (flat, tensors) = (&self.flat, gradients.tensors());
        assert!(tensors.flat() == flat && weights.flat() == flat, "gradients or weights of another model");
        let (squares, not_finite) = self.squares(tensors.at(0), flat.len())?;
        if not_finite > 0 {
            return self.skipped(tensors);
        }
        let grad_norm = squares.sqrt();
        let scale = self.settings.scale(grad_norm);
        match &mut self.state {
            State::Device(state) => state.step(&self.settings, (rate, scale), gradients, weights)?,
            State::Host(state) => state.step((rate, scale), gradients, weights)?,
        }
        Ok(StepOutcome::Applied { grad_norm, scale })
    }

    /// The sum of the squares of the finite numbers, and how many are not finite.
    fn squares(&self, x: Ptr<f32>, n: u64) -> Result<(f64, u64), DeviceError> {
        self.kernels.launch(SumOfSquares { x, parts: self.parts.ptr_mut(), n })?;
        let parts = self.parts.read()?;
        let sum = |i: usize| parts.iter().skip(i).step_by(2).sum::<f64>();
        Ok((sum(0), sum(1) as u64))
    }

    /// Names the first tensor with a gradient that is not finite.
    fn skipped(&self, gradients: &Tensors<f32>) -> Result<StepOutcome, DeviceError> {
        for (name, tensor) in gradients.flat().tensors() {
            let (_, not_finite) = self.squares(gradients.at(tensor.offset), tensor.elements() as u64)?;
            if not_finite > 0 {
                return Ok(StepOutcome::Skipped {
                    parameter: name.to_owned(),
                    not_finite: not_finite as usize,
                });
            }
        }
        let call = "counting the gradients that are not finite".to_owned();
        let reason = "a count over all found some, a count by parameter none".to_owned();
        Err(DeviceError::Call { call, device: self.kernels.device.name(), reason })
    }

    /// One of the [`STATE_PARTS`](grpo_lambda_decoder::optim::STATE_PARTS) of a parameter; empty if there is none.
    fn array(&self, part: &str, name: &str) -> Result<Vec<f32>, DeviceError> {
        match &self.state {
            State::Device(state) => state.array(part, name),
            State::Host(state) => Ok(state.array(part, name).to_vec()),
        }
    }

    /// Step count, weights and moments as a safetensors file: that of [`grpo_lambda_decoder::optim::AdamW::to_bytes`], which can restore it.
    ///
    /// # Errors
    /// Errors if the device fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = Vec::new();
        match self.write(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(WriteStateError::Device(e)) => Err(e),
            Err(WriteStateError::Write(e)) => unreachable!("memory takes every byte: {e}"),
        }
    }

    /// [`GpuAdamW::to_bytes`], array by array: one of them at a time is copied.
    ///
    /// # Errors
    /// Errors if the device fails or `to` refuses.
    pub fn write(&self, to: &mut dyn Write) -> Result<(), WriteStateError> {
        let array = |part: &str, name: &str, to: &mut dyn Write| {
            Ok(to.write_all(&bytes_of(&self.array(part, name)?))?)
        };
        write_state(self.steps(), self.sizes(), self.settings.compensated, &array, to)
    }

    /// Names and sizes.
    fn sizes(&self) -> impl Iterator<Item = (&str, usize)> {
        self.flat.tensors().map(|(name, tensor)| (name, tensor.elements()))
    }

    /// Takes over a state that this or [`grpo_lambda_decoder::optim::AdamW`] wrote, to the bit, and rounds its weights into `weights`.
    ///
    /// # Errors
    /// [`OptimError::State`] if the bytes are not such a file, or are of other parameters: nothing has changed then.
    /// [`OptimError::Device`] if the device fails.
    pub fn restore(&mut self, bytes: &[u8], weights: &Tensors) -> Result<(), OptimError> {
        let state = SavedState::open(bytes, self.sizes(), self.settings.compensated)?;
        match &mut self.state {
            State::Device(mine) => Ok(mine.restore(&state, weights)?),
            State::Host(mine) => Ok(mine.restore(&state, weights)?),
        }
    }
}
