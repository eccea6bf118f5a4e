//! Rotary position embedding: the angles by which queries and keys are rotated.

use std::sync::Arc;

use grpo_lambda_decoder::device::DeviceError;

use super::array::Array;
use super::device::Device;
use super::ptr::Ptr;

/// Cosine and sine of every angle, `[positions, dim / 2, 2]`.
#[derive(Debug)]
pub(super) struct RotaryTable {
    positions: usize,
    array: Array<f32>,
}

impl RotaryTable {
    /// For positions `0..len` at least. Angles are computed in `f64` and rounded once.
    pub(super) fn new(
        device: &Arc<dyn Device>,
        len: usize,
        frequencies: &[f64],
    ) -> Result<Self, DeviceError> {
        let positions = len.next_power_of_two().max(256);
        let angles = (0..positions).flat_map(|p| frequencies.iter().map(move |f| p as f64 * f));
        let rotations: Vec<f32> = angles.flat_map(|a| [a.cos() as f32, a.sin() as f32]).collect();
        Ok(RotaryTable { positions, array: Array::of(device, "workspace", &rotations)? })
    }

    /// Positions that it has.
    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    pub(super) fn ptr(&self) -> Ptr<f32> {
        self.array.ptr()
    }
}
