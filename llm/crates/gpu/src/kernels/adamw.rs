//! The optimiser over flat arrays: the norm of gradients, the AdamW step, and rounding.

use grpo_lambda_decoder::device::DeviceError;

use super::launch::{Kernel, ROW, flat_blocks};
use crate::device::Device;
use crate::ptr::{Arg, Ptr, PtrMut, Real};

/// Partial sums of `x^2`, and how many elements are NaN or infinite; those are not summed.
#[derive(Clone, Copy, Debug)]
pub struct SumOfSquares {
    /// `[n]`.
    pub x: Ptr<f32>,
    /// `[PARTS, 2]`: see [`SumOfSquares::PARTS`].
    pub parts: PtrMut<f64>,
    /// Elements.
    pub n: u64,
}

impl SumOfSquares {
    /// Most blocks, each of which leaves one pair of numbers; the pairs of the blocks that a short array does not need are 0.
    pub const PARTS: u32 = 512;
}

impl Kernel for SumOfSquares {
    const NAME: &'static str = "sum_of_squares";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (flat_blocks(self.n, Self::PARTS), 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.x.into(), self.n.into(), self.parts.into()]
    }

    fn bytes(&self) -> f64 {
        self.x.bytes(self.n as usize)
    }

    fn prepare(&self, device: &dyn Device) -> Result<(), DeviceError> {
        device.clear(self.parts.address(), 2 * Self::PARTS as usize * size_of::<f64>())
    }
}

/// Numbers of an AdamW step that do not depend on the parameter; each is rounded once, after what is computed from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWStep {
    /// Learning rate.
    pub rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
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

/// AdamW over flat arrays of `n` elements, with the bits of [`grpo_lambda_decoder::optim::AdamW`].
#[derive(Clone, Copy, Debug)]
pub struct AdamWUpdate {
    /// The weights in `f32`.
    pub master: PtrMut<f32>,
    /// First moment.
    pub m: PtrMut<f32>,
    /// Second moment.
    pub v: PtrMut<f32>,
    /// What rounding took from the master weights, to be added to the next update.
    pub compensation: Option<PtrMut<f32>>,
    /// The gradient.
    pub gradient: Ptr<f32>,
    /// Becomes the rounded master weights.
    pub weight: PtrMut<Real>,
    /// Elements.
    pub n: u64,
    /// The rest.
    pub step: AdamWStep,
}

impl Kernel for AdamWUpdate {
    const NAME: &'static str = "adamw";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (flat_blocks(self.n, 65_535), 1)
    }

    fn args(&self) -> Vec<Arg> {
        let step = self.step;
        vec![
            self.master.into(),
            self.m.into(),
            self.v.into(),
            self.compensation.into(),
            self.gradient.into(),
            self.weight.into(),
            self.n.into(),
            Arg::F32(step.beta2 as f32),
            Arg::F32((1.0 - step.beta1) as f32),
            Arg::F32((1.0 - step.beta2) as f32),
            Arg::F32(step.epsilon as f32),
            Arg::F32((step.rate * step.decay) as f32),
            Arg::F32((step.rate / step.correction1) as f32),
            Arg::F32(step.correction2.sqrt() as f32),
            Arg::F32(step.scale as f32),
        ]
    }

    fn bytes(&self) -> f64 {
        let n = self.n as usize;
        let compensation = self.compensation.map_or(0.0, |c| c.bytes(n));
        let read_and_written = self.master.bytes(n) + self.m.bytes(n) + self.v.bytes(n) + compensation;
        2.0 * read_and_written + self.gradient.bytes(n) + self.weight.bytes(n)
    }
}

/// `y = x`, rounded.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// `[n]`.
    pub x: Ptr<f32>,
    /// `[n]`.
    pub y: PtrMut<Real>,
    /// Elements.
    pub n: u64,
}

impl Kernel for Round {
    const NAME: &'static str = "round";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (flat_blocks(self.n, 65_535), 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.x.into(), self.y.into(), self.n.into()]
    }

    fn bytes(&self) -> f64 {
        self.x.bytes(self.n as usize) + self.y.bytes(self.n as usize)
    }
}
