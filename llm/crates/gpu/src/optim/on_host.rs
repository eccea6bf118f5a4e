//! The optimiser's state in the host's memory, moved by the host.
//!
//! Gradients come here and rounded weights go back, 4 + 2 bytes a weight in bf16. To move the weights on the device, the state would have to go
//! there and back, 32 bytes a weight. In exchange the host reads and writes 36 bytes a weight of its memory.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::optim::{AdamW, AdamWSettings, OptimError, SavedState};

use crate::device::{Device, HostWork};
use crate::gradients::Gradients;
use crate::weights::Tensors;

/// Gradients that are on the host at a time: 64 MiB.
const PIECE: usize = 1 << 24;

/// [`AdamW`] for weights that a device computes with.
#[derive(Debug)]
pub(super) struct HostState {
    device: Arc<dyn Device>,
    /// `None` on a device that only counts.
    adam: Option<AdamW>,
    /// Trained weights.
    elements: usize,
    compensated: bool,
}

impl HostState {
    pub(super) fn new(
        device: &Arc<dyn Device>,
        settings: &AdamWSettings,
        weights: &Tensors,
        parameters: &Parameters<f32>,
    ) -> Result<Self, DeviceError> {
        let sizes = || weights.flat().tensors().map(|(name, tensor)| (name.to_owned(), tensor.elements()));
        let elements = sizes().map(|(_, elements)| elements).sum();
        let start = |(name, elements): (String, usize)| {
            let data = parameters.get(&name).map_or_else(|| vec![0.0; elements], |t| t.data.clone());
            assert_eq!(data.len(), elements, "numbers of {name}");
            (name, data)
        };
        let mut adam = None;
        device.on_host(HostWork::default(), &mut || {
            adam = Some(AdamW::new(settings.clone(), sizes().map(start)));
            Ok(())
        })?;
        Ok(HostState { device: device.clone(), adam, elements, compensated: settings.compensated })
    }

    /// Bytes of the state.
    pub(super) fn bytes(&self) -> u64 {
        let parts = if self.compensated { 4 } else { 3 };
        (parts * size_of::<f32>() * self.elements) as u64
    }

    pub(super) fn steps(&self) -> u64 {
        self.adam.as_ref().map_or(0, AdamW::steps)
    }

    /// Moves the weights piece by piece.
    pub(super) fn step(
        &mut self,
        (rate, scale): (f64, f64),
        gradients: &Gradients,
        weights: &Tensors,
    ) -> Result<(), DeviceError> {
        let gradients = gradients.tensors();
        let (gradient, rounded) = (size_of::<f32>() * self.elements, weights.dtype().bytes() * self.elements);
        let work = HostWork {
            link: (gradient + rounded) as f64,
            // The state is read and written, the gradient read.
            memory: (2 * self.bytes() + gradient as u64) as f64,
        };
        let adam = &mut self.adam;
        self.device.on_host(work, &mut || {
            let Some(adam) = adam else { return Ok(()) };
            let gradient =
                |name: &str, range: Range<usize>| Ok(Cow::Owned(gradients.read_part(name, range)?));
            let moved = |name: &str, from: usize, new: &[f32]| weights.write_part(name, from, new);
            adam.apply_in_pieces(rate, scale, PIECE, gradient, moved)
        })
    }

    /// One of the [`STATE_PARTS`](grpo_lambda_decoder::optim::STATE_PARTS) of a parameter; empty if there is none.
    pub(super) fn array(&self, part: &str, name: &str) -> &[f32] {
        self.adam.as_ref().and_then(|adam| adam.array(part, name)).unwrap_or_default()
    }

    pub(super) fn restore(&mut self, state: &SavedState<'_>, weights: &Tensors) -> Result<(), OptimError> {
        let Some(adam) = &mut self.adam else { return Ok(()) };
        adam.take_state(state)?;
        adam.parameters().try_for_each(|(name, new)| Ok(weights.write_tensor(name, new)?))
    }
}
