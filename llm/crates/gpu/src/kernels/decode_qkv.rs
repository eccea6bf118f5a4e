//! The first part of a layer in decoding, in one launch.

use super::heads::HeadShape;
use super::launch::kernel;
use crate::ptr::Real;

/// Pairs of numbers of a head that a block works on.
const PAIRS: u32 = 8;
/// Rows that a block works on.
const ROWS: u32 = 64;

kernel! {
    /// [`RmsNorm`](super::RmsNorm), the product with the fused projection and [`DecodeHeads`](super::DecodeHeads) in one: queries, keys and
    /// values of one token of every row from its hidden state, with the roundings of the three. A full row stays as it is.
    DecodeQkv "decode_qkv" {
        /// The hidden state.
        read x: Real[rows, width],
        /// The weight of its norm.
        read norm: Real[width],
        /// The fused projection.
        read weight: Real[heads.line(), width],
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
        read pages: u32[rows, table_width],
        pass rows: u32,
        /// Elements of a hidden state.
        pass width: u32,
        pass heads: HeadShape,
        /// Pages that a line of the table names.
        pass table_width: u32,
        pass eps: f32,
    }
    threads 512; grid ((heads.query + 2 * heads.key) * (heads.dim / 2).div_ceil(PAIRS), rows.div_ceil(ROWS));
    bytes x[rows, width], weight[heads.line(), width], q[rows, heads.line()];
    operations 2.0 * f64::from(rows) * f64::from(width) * f64::from(heads.line());
}
