//! Causal attention over ragged rows, with several query heads to a key head, by pages of 32 keys.
//!
//! Keys and values lie in pages in training, scoring and decoding, and are read in the same order: ascending from the row's first. A query's
//! result is a function of its row up to itself. There are no padded positions, hence no masks and no empty rows.
//!
//! The backward pass recomputes the probabilities from the saved log-sum, a block of queries at a time, and sums gradients of keys and values
//! over queries in ascending order: the size of a block changes no bit.

mod backward;
mod forward;

use super::matmul::{NR, packed_len};
use super::real::Real;

pub use backward::{Context, backward};
pub use forward::{forward, forward_cached};

/// Keys of a page.
pub const PAGE: usize = NR;
/// Query rows (queries times heads of a group) processed together.
const BLOCK: usize = 48;

/// Heads of a layer; a token of the fused projection holds the queries, then the keys, then the values of every head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key and value heads.
    pub key: usize,
    /// Numbers per head.
    pub dim: usize,
}

impl Heads {
    /// Query heads that share a key head.
    pub const fn group(&self) -> usize {
        self.query / self.key
    }
    /// Numbers per token of the fused projection.
    pub const fn stride(&self) -> usize {
        (self.query + 2 * self.key) * self.dim
    }
    /// Numbers per token of the output.
    pub const fn width(&self) -> usize {
        self.query * self.dim
    }
    /// Heads that RoPE rotates: the first of every token, its queries and keys.
    pub const fn rotated(&self) -> usize {
        self.query + self.key
    }
    /// Numbers of a page of one key head: keys by column, then values by row in panels of 32.
    pub const fn page(&self) -> usize {
        PAGE * self.dim + packed_len(PAGE, self.dim)
    }
    /// Keys and values of a token: the end of its part of the fused projection, keys of all heads first.
    pub const fn cached(&self) -> usize {
        2 * self.key * self.dim
    }
    fn scale<T: Real>(&self) -> T {
        T::from_f64(1.0 / (self.dim as f64).sqrt())
    }
    fn key_at(&self, g: usize) -> usize {
        (self.query + g) * self.dim
    }
    fn value_at(&self, g: usize) -> usize {
        (self.query + self.key + g) * self.dim
    }
}

/// Writes key and value head `g` of one token into slot `slot` of a page.
pub fn store<T: Real>(heads: Heads, g: usize, token: &[T], slot: usize, page: &mut [T]) {
    let d = heads.dim;
    let (keys, values) = page.split_at_mut(PAGE * d);
    for (c, &x) in token[heads.key_at(g)..][..d].iter().enumerate() {
        keys[c * PAGE + slot] = x;
    }
    for (panel, x) in values.chunks_exact_mut(PAGE * NR).zip(token[heads.value_at(g)..][..d].chunks(NR)) {
        panel[slot * NR..slot * NR + x.len()].copy_from_slice(x);
    }
}

/// `out` cut at `offsets` (in tokens of `width` numbers): one slice per row.
pub(crate) fn split_rows<'a, T>(mut out: &'a mut [T], offsets: &[usize], width: usize) -> Vec<&'a mut [T]> {
    let mut parts = Vec::with_capacity(offsets.len() - 1);
    for pair in offsets.windows(2) {
        let (part, rest) = out.split_at_mut((pair[1] - pair[0]) * width);
        parts.push(part);
        out = rest;
    }
    parts
}

/// The pages of rows in a cache.
pub trait Pages<T>: Sync {
    /// Page `page` of row `row`, key head `g`.
    fn page(&self, row: usize, page: usize, g: usize) -> &[T];
    /// Position of the first query of row `row`.
    fn first(&self, row: usize) -> usize;
}
