//! AdamW on a device: the settings, the equations and the saved state of [`grpo_lambda_decoder::optim::AdamW`].
//!
//! Weights in `f32`, what rounding took from them, and both moments lie in arrays of the gradients' layout, so a step is two launches:
//! over the matrices, which decay, and over the vectors, which by default do not. The joint norm is summed in `f64` in a fixed order,
//! though not the CPU's: the norm, and through clipping the step, can differ from the CPU's in the last place. Given the same factor of
//! the gradient, the step has the CPU's bits.

use std::io::Write;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::optim::{
    AdamWSettings, Decay, OptimError, STATE_PARTS, SavedState, StepOutcome, WriteStateError, write_state,
};
use grpo_lambda_decoder::tensor_file::bytes_of;

use super::array::Array;
use super::gradients::Gradients;
use super::kernels::{AdamWStep, AdamWUpdate, Kernels, Round, SumOfSquares};
use super::ptr::Ptr;
use super::weights::Tensors;

/// AdamW over the tensors of one layout.
#[derive(Debug)]
pub struct GpuAdamW {
    kernels: Kernels,
    settings: AdamWSettings,
    steps: u64,
    master: Tensors<f32>,
    /// What rounding took from the master weights, where it is kept.
    compensation: Option<Tensors<f32>>,
    first: Tensors<f32>,
    second: Tensors<f32>,
    /// Of [`SumOfSquares`].
    parts: Array<f64>,
}

/// Why a state could not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It does not fit.
    #[error(transparent)]
    State(#[from] OptimError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl GpuAdamW {
    /// An optimiser of tensors laid out as `weights`, at these values; those not in `parameters` are at zero.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    ///
    /// # Panics
    /// When `parameters` has a name or size that `weights` has not.
    pub fn new(
        kernels: Kernels,
        settings: AdamWSettings,
        weights: &Tensors,
        parameters: &Parameters<f32>,
    ) -> Result<Self, DeviceError> {
        let zeros = |what| Tensors::zeros(&kernels.device, what, weights.flat(), Dtype::F32);
        let master = zeros("master weights")?;
        master.write(parameters)?;
        let compensation = settings.compensated.then(|| zeros("rounding residuals")).transpose()?;
        let (first, second) = (zeros("moments")?, zeros("moments")?);
        let parts = Array::zeros(&kernels.device, "workspace", 2 * SumOfSquares::PARTS as usize)?;
        Ok(GpuAdamW { kernels, settings, steps: 0, master, compensation, first, second, parts })
    }

    /// Steps applied so far; skipped ones do not count.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The `f32` weights.
    pub fn master(&self) -> &Tensors<f32> {
        &self.master
    }

    /// Moves every weight against its gradient with learning rate `rate`; `weights` become the rounded result.
    ///
    /// # Errors
    /// When the device fails.
    ///
    /// # Panics
    /// When gradients or weights have another layout.
    pub fn step(
        &mut self,
        rate: f64,
        gradients: &Gradients,
        weights: &Tensors,
    ) -> Result<StepOutcome, DeviceError> {
        let (flat, gradients) = (self.master.flat(), gradients.tensors());
        assert!(gradients.flat() == flat && weights.flat() == flat, "gradients or weights of another model");
        let (squares, not_finite) = self.squares(gradients.at(0), flat.len())?;
        if not_finite > 0 {
            return self.skipped(gradients);
        }
        let grad_norm = squares.sqrt();
        let scale = self.settings.scale(grad_norm);
        self.steps += 1;
        let left = |beta: f64| 1.0 - beta.powf(self.steps as f64);
        let AdamWSettings { beta1, beta2, epsilon, weight_decay, .. } = self.settings;
        let step = AdamWStep {
            rate,
            beta1,
            beta2,
            epsilon,
            decay: weight_decay,
            correction1: left(beta1),
            correction2: left(beta2),
            scale,
        };
        let spared = if self.settings.decay == Decay::All { weight_decay } else { 0.0 };
        for (begin, end, decay) in [(0, flat.matrices(), weight_decay), (flat.matrices(), flat.len(), spared)]
        {
            if begin < end {
                self.kernels.launch(AdamWUpdate {
                    master: self.master.at_mut(begin),
                    m: self.first.at_mut(begin),
                    v: self.second.at_mut(begin),
                    compensation: self.compensation.as_ref().map(|c| c.at_mut(begin)),
                    gradient: gradients.at(begin),
                    weight: weights.at_mut(begin),
                    n: end - begin,
                    step: AdamWStep { decay, ..step },
                })?;
            }
        }
        Ok(StepOutcome::Applied { grad_norm, scale })
    }

    /// Sum of squares of the numbers that are finite, and how many are not.
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

    /// The arrays in the order of [`STATE_PARTS`].
    fn arrays(&self) -> [Option<&Tensors<f32>>; 4] {
        [Some(&self.master), self.compensation.as_ref(), Some(&self.first), Some(&self.second)]
    }

    /// Step count, weights and moments as a safetensors file: that of [`grpo_lambda_decoder::optim::AdamW::to_bytes`], which can restore it.
    ///
    /// # Errors
    /// When the device fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = Vec::new();
        match self.write(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(WriteStateError::Device(e)) => Err(e),
            Err(WriteStateError::Write(e)) => unreachable!("memory takes every byte: {e}"),
        }
    }

    /// [`GpuAdamW::to_bytes`], array by array: one of them at a time is on the host.
    ///
    /// # Errors
    /// When the device fails or `to` refuses.
    pub fn write(&self, to: &mut dyn Write) -> Result<(), WriteStateError> {
        let array = |part: &str, name: &str, to: &mut dyn Write| {
            let mut parts = STATE_PARTS.into_iter().zip(self.arrays());
            let found = parts.find(|(p, _)| *p == part).and_then(|(_, array)| array);
            let values = found.map(|array| array.read_tensor(name)).transpose()?;
            Ok(to.write_all(&bytes_of(&values.unwrap_or_default()))?)
        };
        write_state(self.steps, self.sizes(), self.settings.compensated, &array, to)
    }

    /// Names and sizes.
    fn sizes(&self) -> impl Iterator<Item = (&str, usize)> {
        self.master.flat().tensors().map(|(name, tensor)| (name, tensor.elements()))
    }

    /// Takes over a state that this or [`grpo_lambda_decoder::optim::AdamW`] wrote, to the bit, and rounds its weights into `weights`.
    ///
    /// # Errors
    /// [`RestoreError::State`] when the bytes are not such a file, or are of other parameters: nothing has changed then. When the device
    /// fails.
    pub fn restore(&mut self, bytes: &[u8], weights: &Tensors) -> Result<(), RestoreError> {
        let flat = self.master.flat();
        let state = SavedState::open(bytes, self.sizes(), self.settings.compensated)?;
        for (name, _) in flat.tensors() {
            for (part, array) in STATE_PARTS.into_iter().zip(self.arrays()) {
                if let Some(array) = array {
                    array.write_tensor(name, &state.values(part, name))?;
                }
            }
        }
        self.kernels.launch(Round { x: self.master.at(0), y: weights.at_mut(0), n: flat.len() })?;
        self.steps = state.steps;
        Ok(())
    }
}
