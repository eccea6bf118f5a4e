//! Heads of an attention: queries and keys rotated by their position (RoPE).

use grpo_lambda_decoder::device::DeviceError;

use super::launch::{Pass, ROW, kernel};
use crate::device::Device;
use crate::ptr::{Arg, Real};

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

    /// Elements of a token's queries.
    pub(super) fn queries(self) -> u32 {
        self.query * self.dim
    }

    /// Elements of a token's keys, or of its values.
    pub(super) fn keys(self) -> u32 {
        self.key * self.dim
    }

    /// Elements of a token's queries, keys and values.
    pub(super) fn line(self) -> u32 {
        self.queries() + 2 * self.keys()
    }

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

impl Pass for HeadShape {
    fn pass(self, args: &mut Vec<Arg>) {
        [self.query, self.key, self.dim].map(Arg::U32).pass(args);
    }
}

kernel! {
    /// Queries and keys of every token, plus their bias, rotated by their position in the row; values plus their bias. `qkv` and `out` may be
    /// one.
    RotateHeads "rotate_heads" {
        read qkv: Real[tokens, heads.line()],
        read bias: Real[heads.line()] or null,
        /// `[positions, dim / 2, 2]`: cosine and sine of every angle.
        read table: f32[..],
        read positions: u32[tokens],
        write out: Real[tokens, heads.line()],
        size tokens: u32,
        pass heads: HeadShape,
        /// 1 to rotate; -1 to rotate back, which is the gradient.
        pass sign: f32,
    }
    threads ROW; grid (tokens, 1);
    bytes qkv[tokens, heads.line()], out[tokens, heads.line()];
}
