//! The gate of the MLP.

use super::launch::{Kernel, ROW};
use crate::ptr::{Arg, Ptr, PtrMut, Real};

/// `y = silu(gate) up`.
#[derive(Clone, Copy, Debug)]
pub struct Swiglu {
    /// `[tokens, 2 width]`: gate, then up, without their bias.
    pub gate_up: Ptr<Real>,
    /// `[2 width]`.
    pub bias: Option<Ptr<Real>>,
    /// `[tokens, width]`.
    pub y: PtrMut<Real>,
    /// Rows.
    pub tokens: u32,
    /// Elements of a row of `y`.
    pub width: u32,
}

impl Kernel for Swiglu {
    const NAME: &'static str = "swiglu";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.tokens, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.gate_up.into(), self.bias.into(), self.y.into(), self.width.into()]
    }

    fn bytes(&self) -> f64 {
        let n = self.tokens as usize * self.width as usize;
        self.gate_up.bytes(2 * n) + self.y.bytes(n)
    }
}

/// The gradient of [`Swiglu`] with respect to `gate_up`, which `dgate_up` may be.
#[derive(Clone, Copy, Debug)]
pub struct SwigluBackward {
    /// `[tokens, 2 width]`, without bias.
    pub gate_up: Ptr<Real>,
    /// `[2 width]`.
    pub bias: Option<Ptr<Real>>,
    /// `[tokens, width]`.
    pub dy: Ptr<Real>,
    /// `[tokens, 2 width]`.
    pub dgate_up: PtrMut<Real>,
    /// Rows.
    pub tokens: u32,
    /// Elements of a row of `dy`.
    pub width: u32,
}

impl Kernel for SwigluBackward {
    const NAME: &'static str = "swiglu_backward";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.tokens, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.gate_up.into(), self.bias.into(), self.dy.into(), self.dgate_up.into(), self.width.into()]
    }

    fn bytes(&self) -> f64 {
        let n = self.tokens as usize * self.width as usize;
        self.gate_up.bytes(2 * n) + self.dy.bytes(n) + self.dgate_up.bytes(2 * n)
    }
}
