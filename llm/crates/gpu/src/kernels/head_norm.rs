//! RMSNorm of every query head and of every key head over its own numbers, and its gradients.

use grpo_lambda_decoder::device::DeviceError;

use super::heads::HeadShape;
use super::launch::{Kernel, ROW};
use super::norm::COLUMNS;
use crate::device::Device;
use crate::ptr::{Arg, Ptr, PtrMut, Real};

/// Warps of a block; each works on one head of one token at a time.
const WARPS: u32 = ROW / 32;

/// `y = x / sqrt(mean x^2 + eps) * weight` of every query and key head `x` of the fused projection plus its bias; values are
/// given their bias alone. `qkv` and `out` may be one.
#[derive(Clone, Copy, Debug)]
pub struct HeadNorm {
    /// Token-major, `[tokens, (query + 2 key) dim]`.
    pub qkv: Ptr<Real>,
    /// `[(query + 2 key) dim]`.
    pub bias: Option<Ptr<Real>>,
    /// `[2, dim]`: of every query head, of every key head.
    pub weight: Ptr<Real>,
    /// As `qkv`.
    pub out: PtrMut<Real>,
    /// Tokens.
    pub tokens: u32,
    /// How many heads of which size, at most [`HeadShape::WIDEST`].
    pub heads: HeadShape,
    /// Added to the mean square.
    pub eps: f32,
}

impl Kernel for HeadNorm {
    const NAME: &'static str = "head_norm";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        ((self.tokens * (self.heads.query + 2 * self.heads.key)).div_ceil(WARPS), 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.qkv.into(),
            self.bias.into(),
            self.weight.into(),
            self.out.into(),
            self.tokens.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
            self.eps.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let HeadShape { query, key, dim } = self.heads;
        let n = self.tokens as usize * ((query + 2 * key) * dim) as usize;
        self.qkv.bytes(n) + self.out.bytes(n)
    }

    fn prepare(&self, device: &dyn Device) -> Result<(), DeviceError> {
        self.heads.check(Self::NAME, device)
    }
}

/// Replaces the gradient of [`HeadNorm`]'s output by that of the projection plus its bias, in query and key heads; that of the
/// values is the same.
#[derive(Clone, Copy, Debug)]
pub struct HeadNormBackward {
    /// As in [`HeadNorm`].
    pub qkv: Ptr<Real>,
    /// As in [`HeadNorm`].
    pub bias: Option<Ptr<Real>>,
    /// As in [`HeadNorm`].
    pub weight: Ptr<Real>,
    /// As `qkv`.
    pub dqkv: PtrMut<Real>,
    /// `[parts, 2, dim]`, with as many parts as [`HeadNormBackward::parts`] says: sums of `dy x / sqrt(mean x^2 + eps)` over query
    /// heads and over key heads, for [`HeadNormWeight`]. Part `p` has, in both, those whose place in their list by token and head
    /// is `i` with `i / 8` equal to `p` modulo the number of parts. Without it the weight gets no gradient.
    pub parts: Option<PtrMut<f32>>,
    /// Tokens.
    pub tokens: u32,
    /// As in [`HeadNorm`].
    pub heads: HeadShape,
    /// Added to the mean square.
    pub eps: f32,
}

impl HeadNormBackward {
    /// Most parts: blocks enough for the processors of a GPU, and few enough that their sum is little work.
    const MOST_PARTS: u32 = 512;

    /// Parts of the gradient of the weights, of so many tokens.
    pub fn parts(tokens: u32, heads: HeadShape) -> u32 {
        (tokens * heads.query.max(heads.key)).div_ceil(WARPS).min(Self::MOST_PARTS)
    }
}

impl Kernel for HeadNormBackward {
    const NAME: &'static str = "head_norm_backward";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (Self::parts(self.tokens, self.heads), 2)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.qkv.into(),
            self.bias.into(),
            self.weight.into(),
            self.dqkv.into(),
            self.parts.into(),
            self.tokens.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
            self.eps.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let HeadShape { query, key, dim } = self.heads;
        let n = self.tokens as usize * ((query + key) * dim) as usize;
        self.qkv.bytes(n) + 2.0 * self.dqkv.bytes(n)
    }

    fn prepare(&self, device: &dyn Device) -> Result<(), DeviceError> {
        self.heads.check(Self::NAME, device)
    }
}

/// `dweight += ` the sum of the parts that [`HeadNormBackward`] left.
#[derive(Clone, Copy, Debug)]
pub struct HeadNormWeight {
    /// `[rows, width]`.
    pub parts: Ptr<f32>,
    /// `[width]`.
    pub dweight: PtrMut<f32>,
    /// Parts.
    pub rows: u32,
    /// Elements of a part, `2 dim`.
    pub width: u32,
}

impl Kernel for HeadNormWeight {
    const NAME: &'static str = "head_norm_weight";
    const BLOCK: u32 = COLUMNS;

    fn grid(&self) -> (u32, u32) {
        (self.width.div_ceil(32), 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.parts.into(), self.dweight.into(), self.rows.into(), self.width.into()]
    }

    fn bytes(&self) -> f64 {
        self.parts.bytes(self.rows as usize * self.width as usize)
            + 2.0 * self.dweight.bytes(self.width as usize)
    }
}
