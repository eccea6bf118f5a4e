//! Decoding: one token of every row against the KV cache, and filling the cache with prompts.
//!
//! Keys and values of a layer are `[pages, key, PAGE, dim]` each, and a table `[lines, width]` names the pages of every row in the order of
//! its tokens: of a row beyond its tokens whatever is there is not read.

use grpo_lambda_decoder::device::DeviceError;

use super::attention;
use super::heads::HeadShape;
use super::launch::{Kernel, ROW};
use crate::device::Device;
use crate::ptr::{Arg, Ptr, PtrMut, Real};

/// Tokens of a page of the cache.
pub const PAGE: u32 = 32;

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
    /// `[rows, width]`: the pages of every row.
    pub pages: Ptr<u32>,
    /// Rows.
    pub rows: u32,
    /// How many heads of which size.
    pub heads: HeadShape,
    /// Pages that a line of the table names.
    pub width: u32,
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
            self.pages.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
            self.width.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let HeadShape { query, key, dim } = self.heads;
        let n = self.rows as usize * ((query + 2 * key) * dim) as usize;
        self.qkv.bytes(n) + self.q.bytes(n)
    }
}

/// Attention of one token of every row over the cached positions `0..=lengths[row]`. A block works on the query heads of a key head, so that
/// keys and values are read once, and on one of `splits` parts of the positions, so that few rows keep a card busy.
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
    /// `[rows, query dim]`; written where there is one split.
    pub out: PtrMut<Real>,
    /// `[rows, query, splits, dim + 2]`, where there are several: the largest score of a split, the sum of `e^(score - largest)`, and the
    /// sum of the values by them. [`DecodeCombine`] makes the output of it.
    pub parts: Option<PtrMut<f32>>,
    /// `[rows, width]`: the pages of every row.
    pub pages: Ptr<u32>,
    /// Parts of the positions, at least 1.
    pub splits: u32,
    /// Rows.
    pub rows: u32,
    /// How many heads of which size, at most [`HeadShape::WIDEST`].
    pub heads: HeadShape,
    /// Pages that a line of the table names.
    pub width: u32,
    /// Factor of the scores.
    pub scale: f32,
}

impl DecodeAttention {
    /// Blocks that keep every multiprocessor of a large card busy.
    const BLOCKS: u32 = 132;
    /// Positions that are worth a block.
    const POSITIONS: u32 = 128;
    /// Query heads of a block.
    const HEADS: u32 = 16;

    /// Splits for so many rows of this capacity.
    pub fn splits(rows: u32, heads: HeadShape, capacity: u32) -> u32 {
        let blocks = rows * heads.key * (heads.query / heads.key).div_ceil(Self::HEADS);
        (Self::BLOCKS / blocks.max(1)).clamp(1, capacity.div_ceil(Self::POSITIONS).max(1))
    }
}

impl Kernel for DecodeAttention {
    const NAME: &'static str = "decode_attention";
    const BLOCK: u32 = 256;

    fn grid(&self) -> (u32, u32) {
        let HeadShape { query, key, dim } = self.heads;
        let chunks = (query / key).div_ceil(Self::HEADS);
        (self.rows, attention::blocks(key, dim, self.q.dtype()) * chunks * self.splits)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.q.into(),
            self.keys.into(),
            self.values.into(),
            self.lengths.into(),
            self.out.into(),
            self.parts.into(),
            self.pages.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
            self.width.into(),
            self.splits.into(),
            self.scale.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let HeadShape { query, key, dim } = self.heads;
        let (rows, line) = (self.rows as usize, (query * dim) as usize);
        let cached = self.keys.bytes(2 * rows * key as usize * (self.width * PAGE) as usize * dim as usize);
        let parts = self.parts.map_or(self.out.bytes(rows * line), |parts| {
            parts.bytes(rows * query as usize * self.splits as usize * (dim as usize + 2))
        });
        cached + self.q.bytes(rows * line) + parts
    }

    fn prepare(&self, device: &dyn Device) -> Result<(), DeviceError> {
        self.heads.check(Self::NAME, device)
    }
}

/// The output of [`DecodeAttention`] from its parts, in their order.
#[derive(Clone, Copy, Debug)]
pub struct DecodeCombine {
    /// `[lines, splits, dim + 2]`.
    pub parts: Ptr<f32>,
    /// `[lines, dim]`.
    pub out: PtrMut<Real>,
    /// Query heads of all rows.
    pub lines: u32,
    /// Parts of each.
    pub splits: u32,
    /// Numbers of a head.
    pub dim: u32,
}

impl Kernel for DecodeCombine {
    const NAME: &'static str = "decode_combine";
    const BLOCK: u32 = 128;

    fn grid(&self) -> (u32, u32) {
        (self.lines, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![self.parts.into(), self.out.into(), self.splits.into(), self.dim.into()]
    }

    fn bytes(&self) -> f64 {
        let (lines, dim) = (self.lines as usize, self.dim as usize);
        self.parts.bytes(lines * self.splits as usize * (dim + 2)) + self.out.bytes(lines * dim)
    }
}

/// Copies the keys and values of prompts into pages of the cache: each copy is of a prompt from a position on, into the pages of a line of
/// the table.
#[derive(Clone, Copy, Debug)]
pub struct FillCache {
    /// `[tokens, (query + 2 key) dim]` of the prompts, queries and keys rotated.
    pub qkv: Ptr<Real>,
    /// `[prompts + 1]`: the token at which each prompt begins.
    pub offsets: Ptr<u32>,
    /// `[copies]`: the prompt.
    pub source: Ptr<u32>,
    /// Cached keys.
    pub keys: PtrMut<Real>,
    /// Cached values.
    pub values: PtrMut<Real>,
    /// `[lines, width]`: pages.
    pub pages: Ptr<u32>,
    /// `[copies]`: the line of the table.
    pub lines: Ptr<u32>,
    /// `[copies]`: the first position that is copied.
    pub begins: Ptr<u32>,
    /// Copies.
    pub copies: u32,
    /// Tokens of all copies.
    pub tokens: u32,
    /// How many heads of which size.
    pub heads: HeadShape,
    /// Pages that a line of the table names.
    pub width: u32,
}

impl Kernel for FillCache {
    const NAME: &'static str = "fill_cache";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (self.copies, self.heads.key)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.qkv.into(),
            self.offsets.into(),
            self.source.into(),
            self.keys.into(),
            self.values.into(),
            self.pages.into(),
            self.lines.into(),
            self.begins.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
            self.width.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let HeadShape { key, dim, .. } = self.heads;
        2.0 * self.keys.bytes(2 * self.tokens as usize * (key * dim) as usize)
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
                parts: None,
                pages: Ptr::new(0, kernels.dtype),
                splits: 1,
                rows: 1,
                heads: HeadShape { query: 1, key: 1, dim },
                width: 1,
                scale: 1.0,
            };
            kernels.launch(attention).map_err(|e| e.to_string())
        };
        assert_eq!(attend(256), Ok(()));
        let refused = "decode_attention failed on dry run: a head has 258 numbers, the most is 256";
        assert_eq!(attend(258), Err(refused.to_owned()));
    }

    #[test]
    fn few_rows_are_split_and_many_or_short_ones_are_not() {
        let heads = HeadShape { query: 12, key: 2, dim: 128 };
        let splits = |rows, capacity| DecodeAttention::splits(rows, heads, capacity);
        assert_eq!((splits(16, 512), splits(64, 512), splits(64, 100)), (4, 1, 1));
        assert_eq!((splits(1, 32_768), splits(8, 1024), splits(0, 0)), (66, 8, 1));
    }
}
