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

use super::heads::HeadShape;
use super::launch::Kernel;
use crate::ptr::{Arg, Ptr, PtrMut, Real};
use grpo_lambda_decoder::device::Dtype;

/// Queries or keys of a segment that a block works on.
pub const TILE: u32 = 64;

/// Threads of a block.
const THREADS: u32 = 128;

/// Segments of tokens, end to end.
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    /// `[segments + 1]`: the token at which each begins, and the end of the last.
    pub offsets: Ptr<u32>,
    /// `[segments]`: the prefix that a segment continues, or the segment itself where it continues none.
    pub prefix: Ptr<u32>,
    /// `[segments, 2]`: the first segment that continues this one, and the segment after the last.
    pub readers: Ptr<u32>,
    /// `[count, 2]`: a segment and the first of at most [`TILE`] tokens of it, each token of each segment once.
    pub query_tiles: Ptr<u32>,
    /// The same tiles in another order.
    pub key_tiles: Ptr<u32>,
    /// How many tiles.
    pub count: u32,
    /// How many tokens.
    pub tokens: usize,
    /// Pairs of a query and a key that it sees, in a head: what the work is proportional to.
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

/// `O` and `L`.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// `[tokens, (query + 2 key) dim]`, queries and keys rotated.
    pub qkv: Ptr<Real>,
    /// Which tokens see which.
    pub segments: Segments,
    /// `[tokens, query dim]`.
    pub out: PtrMut<Real>,
    /// `[tokens, query]`.
    pub log_sum: PtrMut<f32>,
    /// How many heads of which size.
    pub heads: HeadShape,
    /// Factor of the scores.
    pub scale: f32,
}

impl Kernel for Attention {
    const NAME: &'static str = "attention";
    const BLOCK: u32 = THREADS;

    fn grid(&self) -> (u32, u32) {
        (self.segments.count, blocks(self.heads.query, self.heads.dim, self.qkv.dtype()))
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.qkv.into(),
            self.segments.offsets.into(),
            self.segments.prefix.into(),
            self.segments.query_tiles.into(),
            self.out.into(),
            self.log_sum.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
            self.scale.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let HeadShape { query, key, dim } = self.heads;
        let (tokens, line) = (self.segments.tokens, (query * dim) as usize);
        self.qkv.bytes(tokens * (line + (2 * key * dim) as usize))
            + self.out.bytes(tokens * line)
            + self.log_sum.bytes(tokens * query as usize)
    }

    fn operations(&self) -> f64 {
        operations(2.0, &self.segments, self.heads)
    }
}

/// `D` and `dQ`.
#[derive(Clone, Copy, Debug)]
pub struct AttentionQueries {
    /// As in [`Attention`].
    pub qkv: Ptr<Real>,
    /// `[tokens, query dim]`: what [`Attention`] gave.
    pub out: Ptr<Real>,
    /// `[tokens, query dim]`.
    pub dout: Ptr<Real>,
    /// `[tokens, query]`: what [`Attention`] gave.
    pub log_sum: Ptr<f32>,
    /// Which tokens see which.
    pub segments: Segments,
    /// `[tokens, query]`: `D`.
    pub inner: PtrMut<f32>,
    /// `[tokens, (query + 2 key) dim]`, of which the queries are written.
    pub dqkv: PtrMut<Real>,
    /// How many heads of which size.
    pub heads: HeadShape,
    /// Factor of the scores.
    pub scale: f32,
}

impl Kernel for AttentionQueries {
    const NAME: &'static str = "attention_queries";
    const BLOCK: u32 = THREADS;

    fn grid(&self) -> (u32, u32) {
        (self.segments.count, blocks(self.heads.query, self.heads.dim, self.qkv.dtype()))
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.qkv.into(),
            self.out.into(),
            self.dout.into(),
            self.log_sum.into(),
            self.segments.offsets.into(),
            self.segments.prefix.into(),
            self.segments.query_tiles.into(),
            self.inner.into(),
            self.dqkv.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
            self.scale.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let HeadShape { query, key, dim } = self.heads;
        let (tokens, line) = (self.segments.tokens, (query * dim) as usize);
        let read =
            self.qkv.bytes(tokens * (line + (2 * key * dim) as usize)) + self.out.bytes(2 * tokens * line);
        read + self.inner.bytes(2 * tokens * query as usize) + self.dqkv.bytes(tokens * line)
    }

    fn operations(&self) -> f64 {
        operations(3.0, &self.segments, self.heads)
    }
}

/// `dK` and `dV`, from the `D` of [`AttentionQueries`]; those of a prefix are the sums over all rows that continue it, in their order.
#[derive(Clone, Copy, Debug)]
pub struct AttentionKeys {
    /// As in [`Attention`].
    pub qkv: Ptr<Real>,
    /// `[tokens, query dim]`.
    pub dout: Ptr<Real>,
    /// `[tokens, query]`: what [`Attention`] gave.
    pub log_sum: Ptr<f32>,
    /// `[tokens, query]`: `D`.
    pub inner: Ptr<f32>,
    /// Which tokens see which.
    pub segments: Segments,
    /// `[tokens, (query + 2 key) dim]`, of which keys and values are written.
    pub dqkv: PtrMut<Real>,
    /// How many heads of which size.
    pub heads: HeadShape,
    /// Factor of the scores.
    pub scale: f32,
}

impl Kernel for AttentionKeys {
    const NAME: &'static str = "attention_keys";
    const BLOCK: u32 = THREADS;

    fn grid(&self) -> (u32, u32) {
        (self.segments.count, blocks(self.heads.key, self.heads.dim, self.qkv.dtype()))
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.qkv.into(),
            self.dout.into(),
            self.log_sum.into(),
            self.inner.into(),
            self.segments.offsets.into(),
            self.segments.prefix.into(),
            self.segments.readers.into(),
            self.segments.key_tiles.into(),
            self.dqkv.into(),
            self.heads.query.into(),
            self.heads.key.into(),
            self.heads.dim.into(),
            self.scale.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let HeadShape { query, key, dim } = self.heads;
        let (tokens, line) = (self.segments.tokens, (query * dim) as usize);
        let keys = (2 * key * dim) as usize;
        let read = self.qkv.bytes(tokens * (line + keys)) + self.dout.bytes(tokens * line);
        read + self.inner.bytes(2 * tokens * query as usize) + self.dqkv.bytes(tokens * keys)
    }

    fn operations(&self) -> f64 {
        operations(4.0, &self.segments, self.heads)
    }
}
