//! The optimiser's state in the device's memory.

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::optim::{AdamWSettings, Decay, STATE_PARTS, SavedState};

use crate::gradients::Gradients;
use crate::kernels::{AdamWStep, AdamWUpdate, Kernels, Round};
use crate::weights::Tensors;

/// Weights in `f32`, their rounding residuals and both moments, in arrays of the gradients' layout.
#[derive(Debug)]
pub(super) struct DeviceState {
    kernels: Kernels,
    pub(super) steps: u64,
    pub(super) master: Tensors<f32>,
    /// Rounding residuals of the master weights, if they are kept.
    compensation: Option<Tensors<f32>>,
    first: Tensors<f32>,
    second: Tensors<f32>,
}

impl DeviceState {
    pub(super) fn new(
        kernels: &Kernels,
        compensated: bool,
        weights: &Tensors,
        parameters: &Parameters<f32>,
    ) -> Result<Self, DeviceError> {
        let zeros = |what| Tensors::zeros(&kernels.device, what, weights.flat(), Dtype::F32);
        let master = zeros("master weights")?;
        master.write(parameters)?;
        let compensation = compensated.then(|| zeros("rounding residuals")).transpose()?;
        let (first, second) = (zeros("moments")?, zeros("moments")?);
        Ok(DeviceState { kernels: kernels.clone(), steps: 0, master, compensation, first, second })
    }

    /// Two launches: over the matrices, which decay, and over the vectors, which by default do not.
    pub(super) fn step(
        &mut self,
        settings: &AdamWSettings,
        (rate, scale): (f64, f64),
        gradients: &Gradients,
        weights: &Tensors,
    ) -> Result<(), DeviceError> {
        self.steps += 1;
        let left = |beta: f64| 1.0 - beta.powf(self.steps as f64);
        let AdamWSettings { beta1, beta2, epsilon, weight_decay, .. } = *settings;
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
        let (flat, gradients) = (self.master.flat(), gradients.tensors());
        let spared = if settings.decay == Decay::All { weight_decay } else { 0.0 };
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
        Ok(())
    }

    /// The arrays in the order of [`STATE_PARTS`].
    fn arrays(&self) -> [Option<&Tensors<f32>>; 4] {
        [Some(&self.master), self.compensation.as_ref(), Some(&self.first), Some(&self.second)]
    }

    /// One of the [`STATE_PARTS`] of a parameter; empty if there is none.
    pub(super) fn array(&self, part: &str, name: &str) -> Result<Vec<f32>, DeviceError> {
        let mut parts = STATE_PARTS.into_iter().zip(self.arrays());
        let found = parts.find(|(p, _)| *p == part).and_then(|(_, array)| array);
        Ok(found.map(|array| array.read_tensor(name)).transpose()?.unwrap_or_default())
    }

    pub(super) fn restore(&mut self, state: &SavedState<'_>, weights: &Tensors) -> Result<(), DeviceError> {
        let flat = self.master.flat();
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
