//! Causal attention over ragged rows without its scores in memory.
//!
//! ```text
//! S = scale Q K^T   P = softmax(S)   O = P V   L = log sum exp(S)          of the keys that a query sees
//! dV = P^T dO   dP = dO V^T   D = sum dO O   dS = scale P (dP - D)   dQ = dS K   dK = dS^T Q
//! ```
//!
//! Queries, keys and values of a token lie in one line of the fused projection, `[tokens, (query + 2 key) dim]`. A *segment* is a row's own
//! tokens, or a prefix that several rows continue and that is computed once: its rows see all of it, then themselves up to the
//! query. Scores are computed a tile at a time, and again in the backward pass, so memory is linear in the tokens. Every
//! sum has one order: a block owns its queries, or its keys, and goes over the others one tile after the other.

use grpo_lambda_decoder::device::Dtype;

use super::heads::HeadShape;
use super::launch::kernel;
use crate::ptr::{Arg, Ptr, Real};

/// Queries or keys of a segment that a block works on.
pub const TILE: u32 = 64;

/// Threads of a block.
const THREADS: u32 = 128;

/// Segments of tokens, end to end.
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    /// `[segments + 1]`: the token at which each begins, and the end of the last.
    pub offsets: Ptr<u32>,
    /// `[segments]`: the prefix that a segment continues, or the segment itself if it continues none.
    pub prefix: Ptr<u32>,
    /// `[segments, 2]`: the first segment that continues this one, and the segment after the last.
    pub readers: Ptr<u32>,
    /// `[count, 2]`: a segment and the first of at most [`TILE`] tokens of it, each token of each segment once.
    pub query_tiles: Ptr<u32>,
    /// These tiles in another order.
    pub key_tiles: Ptr<u32>,
    /// The number of tiles.
    pub count: u32,
    /// The number of tokens.
    pub tokens: usize,
    /// Pairs of a query and a key that it sees, in a head; the work is proportional to them.
    pub pairs: f64,
}

/// Blocks in the second dimension for so many heads: a block writes at most as many columns of a head as a tile is wide.
pub(super) fn blocks(heads: u32, dim: u32, dtype: Dtype) -> u32 {
    let width = if dtype == Dtype::Bf16 && dim > 64 { 128 } else { 64 };
    heads * dim.div_ceil(width)
}

/// Operations of so many matrix products among those of the equations.
fn operations(products: f64, segments: &Segments, heads: HeadShape) -> f64 {
    2.0 * products * f64::from(heads.dim) * f64::from(heads.query) * segments.pairs
}

impl Segments {
    /// Arguments of a kernel whose blocks own queries.
    fn by_queries(self) -> [Arg; 3] {
        let tiles = Arg::from(self.query_tiles).to_elements(2 * self.count as usize);
        [self.offsets.into(), self.prefix.into(), tiles]
    }

    /// Arguments of a kernel whose blocks own keys.
    fn by_keys(self) -> [Arg; 4] {
        let tiles = Arg::from(self.key_tiles).to_elements(2 * self.count as usize);
        [self.offsets.into(), self.prefix.into(), self.readers.into(), tiles]
    }
}

kernel! {
    /// `O` and `L`.
    Attention "attention" {
        /// Queries and keys rotated.
        read qkv: Real[segments.tokens, heads.line()],
        pass segments: Segments = segments.by_queries(),
        write out: Real[segments.tokens, heads.queries()],
        write log_sum: f32[segments.tokens, heads.query],
        pass heads: HeadShape,
        /// Factor of the scores.
        pass scale: f32,
    }
    threads THREADS; grid (segments.count, blocks(heads.query, heads.dim, qkv.dtype()));
    operations operations(2.0, &segments, heads);
}

kernel! {
    /// `D` and `dQ`.
    AttentionQueries "attention_queries" {
        /// Queries and keys rotated.
        read qkv: Real[segments.tokens, heads.line()],
        /// From [`Attention`].
        read out: Real[segments.tokens, heads.queries()],
        read dout: Real[segments.tokens, heads.queries()],
        /// From [`Attention`].
        read log_sum: f32[segments.tokens, heads.query],
        pass segments: Segments = segments.by_queries(),
        /// `D`.
        write inner: f32[segments.tokens, heads.query],
        /// Only the queries are written.
        write dqkv: Real[segments.tokens, heads.line()],
        pass heads: HeadShape,
        /// Factor of the scores.
        pass scale: f32,
    }
    threads THREADS; grid (segments.count, blocks(heads.query, heads.dim, qkv.dtype()));
    bytes qkv[segments.tokens, heads.line()], out[2, segments.tokens, heads.queries()], inner[2, segments.tokens, heads.query],
        dqkv[segments.tokens, heads.queries()];
    operations operations(3.0, &segments, heads);
}

kernel! {
    /// `dK` and `dV`, from the `D` of [`AttentionQueries`]; those of a prefix are the sums over all rows that continue it, in their order.
    AttentionKeys "attention_keys" {
        /// Queries and keys rotated.
        read qkv: Real[segments.tokens, heads.line()],
        read dout: Real[segments.tokens, heads.queries()],
        /// From [`Attention`].
        read log_sum: f32[segments.tokens, heads.query],
        /// `D`.
        read inner: f32[segments.tokens, heads.query],
        pass segments: Segments = segments.by_keys(),
        /// Only keys and values are written.
        write dqkv: Real[segments.tokens, heads.line()],
        pass heads: HeadShape,
        /// Factor of the scores.
        pass scale: f32,
    }
    threads THREADS; grid (segments.count, blocks(heads.key, heads.dim, qkv.dtype()));
    bytes qkv[segments.tokens, heads.line()], dout[segments.tokens, heads.queries()], inner[2, segments.tokens, heads.query],
        dqkv[2, segments.tokens, heads.keys()];
    operations operations(4.0, &segments, heads);
}
