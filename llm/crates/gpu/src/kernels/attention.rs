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
use super::launch::{ROW, kernel};
use crate::ptr::{Arg, Ptr, Real};

/// Queries or keys of a segment that a block works on.
pub const TILE: u32 = 64;

/// The place of a gradient that has no parts.
pub const WHOLE: u32 = u32::MAX;

/// Rows of a tile that a block of [`AttentionKeysSum`] adds up.
const SUMMED: u32 = 4;

/// Threads of a block.
const THREADS: u32 = 128;

/// Segments of tokens, end to end.
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    /// `[segments + 1]`: the token at which each begins, and the end of the last.
    pub offsets: Ptr<u32>,
    /// `[segments]`: the prefix that a segment continues, or the segment itself if it continues none.
    pub prefix: Ptr<u32>,
    /// `[count, 2]`: a segment and the first of at most [`TILE`] tokens of it, each token of each segment once.
    pub query_tiles: Ptr<u32>,
    /// The number of these tiles.
    pub count: u32,
    /// `[key_count, 4]`: such a tile with the segment itself or one that continues it, for all of these, and the place of their part of the
    /// gradient, or [`WHOLE`] where nothing continues the segment.
    pub key_tiles: Ptr<u32>,
    /// The number of tiles with a segment.
    pub key_count: u32,
    /// `[shared_count, 4]`: a tile that several segments see, the first of its places, and their number.
    pub shared_tiles: Ptr<u32>,
    /// The number of these tiles.
    pub shared_count: u32,
    /// The number of places.
    pub places: usize,
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
    fn by_keys(self) -> [Arg; 2] {
        [self.offsets.into(), Arg::from(self.key_tiles).to_elements(4 * self.key_count as usize)]
    }

    /// Arguments of the kernel that adds parts up.
    fn by_shared(self) -> [Arg; 2] {
        [self.offsets.into(), Arg::from(self.shared_tiles).to_elements(4 * self.shared_count as usize)]
    }

    /// Numbers of the parts of the gradient of keys and values.
    pub fn sums(&self, heads: HeadShape) -> usize {
        self.places * (2 * heads.key * TILE * heads.dim) as usize
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
    bytes qkv[segments.tokens, heads.line()], out[2, segments.tokens, heads.queries()],
        inner[2, segments.tokens, heads.query],
        dqkv[segments.tokens, heads.queries()];
    operations operations(3.0, &segments, heads);
}

kernel! {
    /// `dK` and `dV`, from the `D` of [`AttentionQueries`]. Those of a prefix come in parts, one for itself and each row that continues it, so that
    /// the rows of a group keep a card busy; [`AttentionKeysSum`] adds them up.
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
        /// `[places, key, TILE, 2, dim]`: `dK` and `dV` of a tile by one of its readers.
        write sums: f32[segments.sums(heads)] or null,
        pass heads: HeadShape,
        /// Factor of the scores.
        pass scale: f32,
    }
    threads THREADS; grid (segments.key_count, blocks(heads.key, heads.dim, qkv.dtype()));
    bytes qkv[segments.tokens, heads.line()], dout[segments.tokens, heads.queries()],
        inner[2, segments.tokens, heads.query],
        dqkv[2, segments.tokens, heads.keys()], sums[segments.sums(heads)];
    operations operations(4.0, &segments, heads);
}

kernel! {
    /// `dK` and `dV` of prefixes from the parts of [`AttentionKeys`], in the order of the rows that continue them.
    AttentionKeysSum "attention_keys_sum" {
        /// The parts from [`AttentionKeys`].
        read sums: f32[segments.sums(heads)],
        pass segments: Segments = segments.by_shared(),
        /// Only keys and values of prefixes are written.
        write dqkv: Real[segments.tokens, heads.line()],
        pass heads: HeadShape,
    }
    threads ROW; grid (segments.shared_count, heads.key * TILE / SUMMED);
    bytes sums[segments.sums(heads)], dqkv[2, segments.shared_count, TILE, heads.keys()];
}
