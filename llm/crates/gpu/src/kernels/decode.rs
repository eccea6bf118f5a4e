//! Decoding: one token of every row against the KV cache, and filling the cache with prompts.
//!
//! Keys and values of a layer are `[pages, key, PAGE, dim]` each, and a table `[lines, width]` names the pages of every row in the order of
//! its tokens. What lies in a row's pages beyond its tokens is not read.

use super::attention;
use super::heads::HeadShape;
use super::launch::{ROW, kernel};
use crate::ptr::Real;

/// Tokens of a page of the cache.
pub const PAGE: u32 = 32;

kernel! {
    /// Queries, keys and values of one token of every row, plus their bias, queries and keys rotated by the token's position: keys and
    /// values go into the cache. A full row stays as it is.
    DecodeHeads "decode_heads" {
        read qkv: Real[rows, heads.line()],
        read bias: Real[heads.line()] or null,
        /// `[positions, dim / 2, 2]`: cosine and sine of every angle.
        read table: f32[..],
        /// The tokens before this one, which is its position.
        read lengths: u32[rows],
        write q: Real[rows, heads.queries()],
        /// Cached keys.
        write keys: Real[..],
        /// Cached values.
        write values: Real[..],
        /// The pages of every row.
        read pages: u32[rows, width],
        size rows: u32,
        pass heads: HeadShape,
        /// Pages that a line of the table names.
        pass width: u32,
    }
    threads ROW; grid (rows, 1);
    bytes qkv[rows, heads.line()], q[rows, heads.queries()], keys[rows, heads.keys()], values[rows, heads.keys()];
}

kernel! {
    /// Attention of one token of every row over the cached positions `0..=lengths[row]`. A block works on the query heads of a key head, so
    /// that keys and values are read once, and on one of `splits` parts of the positions, so that few rows keep a card busy. Heads have at most
    /// [`HeadShape::WIDEST`] elements.
    DecodeAttention "decode_attention" {
        read q: Real[rows, heads.queries()],
        /// Cached keys.
        read keys: Real[..],
        /// Cached values.
        read values: Real[..],
        read lengths: u32[rows],
        /// Written if there is one split.
        write out: Real[rows, heads.queries()],
        /// For several splits: the largest score, the sum of `e^(score - largest)`, and the sum of the values by them, for [`DecodeCombine`].
        write parts: f32[rows, heads.query, splits, heads.dim + 2] or null,
        /// The pages of every row.
        read pages: u32[rows, width],
        size rows: u32,
        pass heads: HeadShape,
        /// Pages that a line of the table names.
        pass width: u32,
        /// Parts of the positions, at least 1.
        pass splits: u32,
        /// Factor of the scores.
        pass scale: f32,
    }
    threads 256; grid (rows, attention::blocks(heads.key, heads.dim, q.dtype()) * Self::chunks(heads) * splits);
    bytes keys[2, rows, heads.keys(), width * PAGE], q[rows, heads.queries()], out[parts.is_none(), rows,
        heads.queries()],
        parts[rows, heads.query, splits, heads.dim + 2];
    before(device) heads.check(Self::NAME, device);
}

impl DecodeAttention {
    /// Blocks that keep every multiprocessor of a large card busy.
    const BLOCKS: u32 = 132;
    /// Positions that are worth a block.
    const POSITIONS: u32 = 128;
    /// Query heads of a block.
    const HEADS: u32 = 16;

    /// Blocks for the query heads of a key head.
    fn chunks(heads: HeadShape) -> u32 {
        (heads.query / heads.key).div_ceil(Self::HEADS)
    }

    /// Splits for so many rows of this capacity.
    pub(crate) fn splits(rows: u32, heads: HeadShape, capacity: u32) -> u32 {
        let blocks = rows * heads.key * Self::chunks(heads);
        (Self::BLOCKS / blocks.max(1)).clamp(1, capacity.div_ceil(Self::POSITIONS).max(1))
    }
}

kernel! {
    /// The output of [`DecodeAttention`] from its parts, in their order.
    DecodeCombine "decode_combine" {
        read parts: f32[lines, splits, dim + 2],
        write out: Real[lines, dim],
        /// Query heads of all rows.
        size lines: u32,
        pass splits: u32,
        /// Elements of a head.
        pass dim: u32,
    }
    threads 128; grid (lines, 1);
}

kernel! {
    /// Copies the keys and values of prompts into pages of the cache: each copy is of a prompt from a position on, into the pages of a line of
    /// the table.
    FillCache "fill_cache" {
        /// `[tokens of all prompts, (query + 2 key) dim]`, queries and keys rotated.
        read qkv: Real[..],
        /// `[prompts + 1]`: the token at which each prompt begins.
        read offsets: u32[..],
        /// The prompt.
        read source: u32[copies],
        /// Cached keys.
        write keys: Real[..],
        /// Cached values.
        write values: Real[..],
        /// `[lines, width]`: pages.
        read pages: u32[..],
        /// The line of the table.
        read lines: u32[copies],
        /// The first position that is copied.
        read begins: u32[copies],
        size copies: u32,
        /// Tokens of all copies.
        size tokens: u32,
        pass heads: HeadShape,
        /// Pages that a line of the table names.
        pass width: u32,
    }
    threads ROW; grid (copies, heads.key);
    bytes qkv[2, tokens, heads.keys()], keys[tokens, heads.keys()], values[tokens, heads.keys()];
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use grpo_lambda_decoder::device::Dtype;

    use super::*;
    use crate::dry::Dry;
    use crate::kernels::Kernels;
    use crate::ptr::{Ptr, PtrMut};

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
