//! Causal softmax of attention scores.
//!
//! Line `i` belongs to the query at position `i mod len` of its row, which sees the keys `0..=` its own position.

use super::launch::Kernel;
use crate::ptr::{Arg, Ptr, PtrMut, Real};

/// Threads of a block; it works on one line.
const LINE: u32 = 128;

/// The softmax of `scale scores` over the visible keys, 0 at the others.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    /// `[lines, len]`.
    pub scores: Ptr<f32>,
    /// `[lines, len]`.
    pub probabilities: PtrMut<Real>,
    /// Queries of all heads.
    pub lines: u32,
    /// Tokens of the row.
    pub len: u32,
    /// Factor of the scores.
    pub scale: f32,
}

impl Kernel for Softmax {
    const NAME: &'static str = "softmax";
    const BLOCK: u32 = LINE;

    fn grid(&self) -> (u32, u32) {
        (self.lines, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.scores.into(), self.probabilities.into(), self.len.into(), self.scale.into()]
    }
}

/// `ds = p (dp - sum_j p_j dp_j) scale`, the sum over the visible keys; 0 where `p` is.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxBackward {
    /// `[lines, len]`: the probabilities.
    pub p: Ptr<Real>,
    /// `[lines, len]`.
    pub dp: Ptr<f32>,
    /// `[lines, len]`.
    pub ds: PtrMut<Real>,
    /// Queries of all heads.
    pub lines: u32,
    /// Tokens of the row.
    pub len: u32,
    /// Factor of the scores.
    pub scale: f32,
}

impl Kernel for SoftmaxBackward {
    const NAME: &'static str = "softmax_backward";
    const BLOCK: u32 = LINE;

    fn grid(&self) -> (u32, u32) {
        (self.lines, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.p.into(), self.dp.into(), self.ds.into(), self.len.into(), self.scale.into()]
    }
}
