//! Decoding: one token of every row against the KV cache, and filling the cache with prompts.
//!
//! Keys and values of a layer are `[rows, key, capacity, dim]` each.

use grpo_lambda_decoder::device::DeviceError;

use super::heads::HeadShape;
use super::launch::{Kernel, ROW};
use crate::device::Device;
use crate::ptr::{Arg, Ptr, PtrMut, Real};

/// Queries, keys and values of one token of every row, plus their bias, queries and keys rotated by the token's position: keys and
/// values go into the cache. A row that is full stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct DecodeHeads {
    /// `[rows, (query + 2 key) dim]`.
    pub qkv: Ptr<Real>,
    /// `[(query + 2 key) dim]`.
    pub bias: Option<Ptr<Real>>,
    /// `[positions, dim / 2, 2]`: cosine and sine of every angle.
    pub table: Ptr<f32>,
    /// `[rows]`: the tokens before this one, which is its position.
    pub lengths: Ptr<u32>,
    /// `[rows, query dim]`.
    pub q: PtrMut<Real>,
    /// Cached keys.
    pub keys: PtrMut<Real>,
    /// Cached values.
    pub values: PtrMut<Real>,
    /// Rows.
    pub rows: u32,
    /// How many heads of which size.
    pub heads: HeadShape,
    /// Tokens that a row of the cache holds.
    pub capacity: u32,
}

impl Kernel for DecodeHeads {
    const NAME: &'static str = "decode_heads";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.rows, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.qkv.into(),
            self.bias.into(),
            self.table.into(),
            self.lengths.into(),
            self.q.into(),
            self.keys.into(),
            self.values.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
            self.capacity.into(),
        ]
    }
}

/// Attention of one token of every row over the cached positions `0..=lengths[row]`.
#[derive(Clone, Copy, Debug)]
pub struct DecodeAttention {
    /// `[rows, query dim]`.
    pub q: Ptr<Real>,
    /// Cached keys.
    pub keys: Ptr<Real>,
    /// Cached values.
    pub values: Ptr<Real>,
    /// `[rows]`.
    pub lengths: Ptr<u32>,
    /// `[rows, query dim]`.
    pub out: PtrMut<Real>,
    /// Rows.
    pub rows: u32,
    /// How many heads of which size, at most [`HeadShape::WIDEST`].
    pub heads: HeadShape,
    /// Tokens that a row of the cache holds.
    pub capacity: u32,
    /// Factor of the scores.
    pub scale: f32,
}

impl Kernel for DecodeAttention {
    const NAME: &'static str = "decode_attention";
    const BLOCK: u32 = 128;

    fn grid(&self) -> (u32, u32) {
        (self.rows, self.heads.query)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.q.into(),
            self.keys.into(),
            self.values.into(),
            self.lengths.into(),
            self.out.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
            self.capacity.into(),
            self.scale.into(),
        ]
    }

    fn prepare(&self, device: &dyn Device) -> Result<(), DeviceError> {
        self.heads.check(Self::NAME, device)
    }
}

/// Copies the keys and values of a prompt into every row of the cache.
#[derive(Clone, Copy, Debug)]
pub struct FillCache {
    /// `[tokens, (query + 2 key) dim]` of the prompts, queries and keys rotated.
    pub qkv: Ptr<Real>,
    /// `[prompts + 1]`: the token at which each prompt begins.
    pub offsets: Ptr<u32>,
    /// `[rows]`: the prompt of a row of the cache.
    pub source: Ptr<u32>,
    /// Cached keys.
    pub keys: PtrMut<Real>,
    /// Cached values.
    pub values: PtrMut<Real>,
    /// Rows of the cache.
    pub rows: u32,
    /// How many heads of which size.
    pub heads: HeadShape,
    /// Tokens that a row of the cache holds.
    pub capacity: u32,
}

impl Kernel for FillCache {
    const NAME: &'static str = "fill_cache";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.rows, self.heads.key)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.qkv.into(),
            self.offsets.into(),
            self.source.into(),
            self.keys.into(),
            self.values.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
            self.capacity.into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use grpo_lambda_decoder::device::Dtype;

    use super::*;
    use crate::dry::Dry;
    use crate::kernels::Kernels;

    #[test]
    fn heads_that_are_too_wide_are_refused() {
        let kernels = Kernels { device: Arc::new(Dry::default()), dtype: Dtype::F32 };
        let (read, write) = (Ptr::new(0, kernels.dtype), PtrMut::new(0, kernels.dtype));
        let attend = |dim| {
            let attention = DecodeAttention {
                q: read,
                keys: read,
                values: read,
                lengths: Ptr::new(0, kernels.dtype),
                out: write,
                rows: 1,
                heads: HeadShape { query: 1, key: 1, dim },
                capacity: 1,
                scale: 1.0,
            };
            kernels.launch(attention).map_err(|e| e.to_string())
        };
        assert_eq!(attend(256), Ok(()));
        let refused = "decode_attention failed on dry run: a head has 258 numbers, the most is 256";
        assert_eq!(attend(258), Err(refused.to_owned()));
    }
}
