//! The optimiser over flat arrays: the norm of gradients, the AdamW step, and rounding.

use grpo_lambda_decoder::device::DeviceError;

use super::launch::{Pass, ROW, flat_blocks, kernel};
use crate::device::Device;
use crate::ptr::{Arg, PtrMut, Real};

kernel! {
    /// Partial sums of `x^2`, and how many elements are NaN or infinite; those are not summed.
    SumOfSquares "sum_of_squares" {
        read x: f32[n],
        pass n: u64,
        /// A pair of numbers for every block; 0 for the blocks that a short array does not need.
        write parts: f64[Self::PARTS, 2],
    }
    threads ROW; grid (flat_blocks(n, Self::PARTS), 1);
    bytes x[n];
    before(device) Self::clear(parts, device);
}

impl SumOfSquares {
    /// Most blocks.
    pub const PARTS: u32 = 512;

    fn clear(parts: PtrMut<f64>, device: &dyn Device) -> Result<(), DeviceError> {
        device.clear(parts.address(), 2 * Self::PARTS as usize * size_of::<f64>())
    }
}

/// The numbers of an AdamW step that do not depend on the parameter; each argument is rounded once, after it is computed from them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWStep {
    /// Learning rate.
    pub rate: f64,
    /// Decay rate of the first moment.
    pub beta1: f64,
    /// Decay rate of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Weight decay, decoupled.
    pub decay: f64,
    /// `1 - beta1^t`.
    pub correction1: f64,
    /// `1 - beta2^t`.
    pub correction2: f64,
    /// Factor of the gradient (clipping).
    pub scale: f64,
}

impl Pass for AdamWStep {
    fn pass(self, args: &mut Vec<Arg>) {
        let numbers = [
            self.beta2,
            1.0 - self.beta1,
            1.0 - self.beta2,
            self.epsilon,
            self.rate * self.decay,
            self.rate / self.correction1,
            self.correction2.sqrt(),
            self.scale,
        ];
        numbers.map(|x| Arg::F32(x as f32)).pass(args);
    }
}

kernel! {
    /// AdamW over flat arrays of `n` elements, with the bits of [`grpo_lambda_decoder::optim::AdamW`].
    AdamWUpdate "adamw" {
        /// The weights in `f32`.
        update master: f32[n],
        /// First moment.
        update m: f32[n],
        /// Second moment.
        update v: f32[n],
        /// Rounding residuals of the master weights, added to the next update.
        update compensation: f32[n] or null,
        read gradient: f32[n],
        /// The rounded master weights.
        write weight: Real[n],
        pass n: u64,
        pass step: AdamWStep,
    }
    threads ROW; grid (flat_blocks(n, 65_535), 1);
}

kernel! {
    /// `y = x`, rounded.
    Round "round" {
        read x: f32[n],
        write y: Real[n],
        pass n: u64,
    }
    threads ROW; grid (flat_blocks(n, 65_535), 1);
}
