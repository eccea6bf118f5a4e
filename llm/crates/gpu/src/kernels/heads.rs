//! Heads of an attention: queries and keys rotated by their position (RoPE).

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

/// Queries and keys of every token, plus their bias, rotated by their position in the row; values plus their bias.
#[derive(Clone, Copy, Debug)]
pub struct RotateHeads {
    /// Token-major, `[tokens, (query + 2 key) dim]`.
    pub qkv: Ptr<Real>,
    /// `[(query + 2 key) dim]`.
    pub bias: Option<Ptr<Real>>,
    /// `[positions, dim / 2, 2]`: cosine and sine of every angle.
    pub table: Ptr<f32>,
    /// `[tokens]`.
    pub positions: Ptr<u32>,
    /// As `qkv`, which it may be.
    pub out: PtrMut<Real>,
    /// How many tokens.
    pub tokens: u32,
    /// How many heads of which size.
    pub heads: HeadShape,
    /// 1 to rotate; -1 to rotate back, which is the gradient.
    pub sign: f32,
}

impl Kernel for RotateHeads {
    const NAME: &'static str = "rotate_heads";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.tokens, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.qkv.into(),
            self.bias.into(),
            self.table.into(),
            self.positions.into(),
            self.out.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
            self.sign.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let HeadShape { query, key, dim } = self.heads;
        let n = self.tokens as usize * ((query + 2 * key) * dim) as usize;
        self.qkv.bytes(n) + self.out.bytes(n)
    }
}
