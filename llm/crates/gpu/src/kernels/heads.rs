//! Heads of an attention: split from token-major to head-major and merged back, queries and keys rotated by their position (RoPE).

use grpo_lambda_decoder::device::DeviceError;

use super::launch::{Kernel, ROW};
use crate::device::Device;
use crate::ptr::{Arg, Ptr, PtrMut, Real};

/// The heads of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadShape {
    /// Query heads.
    pub query: u32,
    /// Heads of keys and values, a divisor of `query`.
    pub key: u32,
    /// Elements of a head, even.
    pub dim: u32,
}

impl HeadShape {
    /// Most elements of a head for the kernels that keep one in registers.
    pub const WIDEST: u32 = 256;

    /// Refuses heads that `kernel` cannot keep.
    pub(super) fn check(self, kernel: &str, device: &dyn Device) -> Result<(), DeviceError> {
        if self.dim <= Self::WIDEST {
            return Ok(());
        }
        Err(DeviceError::Call {
            call: kernel.to_owned(),
            device: device.name(),
            reason: format!("a head has {} numbers, the most is {}", self.dim, Self::WIDEST),
        })
    }
}

/// Rows of different lengths, end to end.
#[derive(Clone, Copy, Debug)]
pub struct Ragged {
    /// Tokens in all.
    pub tokens: u32,
    /// `[tokens]`: the row of a token.
    pub row: Ptr<u32>,
    /// `[rows + 1]`: the token at which each row begins, and the end of the last.
    pub offsets: Ptr<u32>,
}

/// Queries, keys and values of every token, plus their bias, into an array each; queries and keys rotated by their position in the row.
#[derive(Clone, Copy, Debug)]
pub struct SplitHeads {
    /// Token-major, `[tokens, (query + 2 key) dim]`.
    pub qkv: Ptr<Real>,
    /// `[(query + 2 key) dim]`.
    pub bias: Option<Ptr<Real>>,
    /// `[positions, dim / 2, 2]`: cosine and sine of every angle.
    pub table: Ptr<f32>,
    /// The rows.
    pub batch: Ragged,
    /// Head-major by row, `query` heads.
    pub q: PtrMut<Real>,
    /// Head-major by row, `key` heads.
    pub k: PtrMut<Real>,
    /// Head-major by row, `key` heads.
    pub v: PtrMut<Real>,
    /// How many heads of which size.
    pub heads: HeadShape,
}

impl Kernel for SplitHeads {
    const NAME: &'static str = "split_heads";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.batch.tokens, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.qkv.into(),
            self.bias.into(),
            self.table.into(),
            self.batch.row.into(),
            self.batch.offsets.into(),
            self.q.into(),
            self.k.into(),
            self.v.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
        ]
    }
}

/// The gradient of [`SplitHeads`] with respect to `qkv`: merged, and rotated back.
#[derive(Clone, Copy, Debug)]
pub struct SplitHeadsBackward {
    /// Head-major by row, `query` heads.
    pub dq: Ptr<Real>,
    /// Head-major by row, `key` heads.
    pub dk: Ptr<Real>,
    /// Head-major by row, `key` heads.
    pub dv: Ptr<Real>,
    /// As in [`SplitHeads`].
    pub table: Ptr<f32>,
    /// The rows.
    pub batch: Ragged,
    /// Token-major, `[tokens, (query + 2 key) dim]`.
    pub dqkv: PtrMut<Real>,
    /// How many heads of which size.
    pub heads: HeadShape,
}

impl Kernel for SplitHeadsBackward {
    const NAME: &'static str = "split_heads_backward";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.batch.tokens, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.dq.into(),
            self.dk.into(),
            self.dv.into(),
            self.table.into(),
            self.batch.row.into(),
            self.batch.offsets.into(),
            self.dqkv.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
        ]
    }
}

/// Attention's output, from head-major by row to token-major.
#[derive(Clone, Copy, Debug)]
pub struct MergeHeads {
    /// Head-major by row, `query` heads.
    pub x: Ptr<Real>,
    /// The rows.
    pub batch: Ragged,
    /// Token-major, `[tokens, query dim]`.
    pub out: PtrMut<Real>,
    /// How many heads of which size.
    pub heads: HeadShape,
}

impl Kernel for MergeHeads {
    const NAME: &'static str = "merge_heads";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.batch.tokens, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.x.into(),
            self.batch.row.into(),
            self.batch.offsets.into(),
            self.out.into(),
            self.heads.query.into(),
            self.heads.dim.into(),
        ]
    }
}

/// The gradient of [`MergeHeads`]: from token-major to head-major by row.
#[derive(Clone, Copy, Debug)]
pub struct MergeHeadsBackward {
    /// Token-major, `[tokens, query dim]`.
    pub dout: Ptr<Real>,
    /// The rows.
    pub batch: Ragged,
    /// Head-major by row, `query` heads.
    pub dx: PtrMut<Real>,
    /// How many heads of which size.
    pub heads: HeadShape,
}

impl Kernel for MergeHeadsBackward {
    const NAME: &'static str = "merge_heads_backward";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.batch.tokens, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.dout.into(),
            self.batch.row.into(),
            self.batch.offsets.into(),
            self.dx.into(),
            self.heads.query.into(),
            self.heads.dim.into(),
        ]
    }
}
