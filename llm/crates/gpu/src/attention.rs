//! Causal attention over ragged rows as batched matrix products.
//!
//! Queries, keys and values are head-major by row (see [`super::kernels`]), so the query heads that share a key head are one matrix of
//! `rep len` lines, and
//!
//! ```text
//! S = Q K^T   P = softmax(S / sqrt(dim))   O = P V                          [rep len, len], [rep len, dim]
//! dV = P^T dO   dP = dO V^T   dS = P (dP - sum P dP) / sqrt(dim)   dQ = dS K   dK = dS^T Q
//! ```
//!
//! for every key head of every row: the sums over the query heads of a key head are part of the products. Consecutive rows of equal
//! length lie at equal distances, so they are one batch of products, cut where the scores would take more than the memory allowed.
//! Scores are not kept: the backward pass computes them again.

use grpo_lambda_decoder::device::{DeviceError, Dtype};

use super::batch::{floats, room};
use super::device::{Buffer, Gemm, Matrix};
use super::kernels::{Kernels, Shape};
use super::projection::product;

/// Rows of equal length that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Token at which the first begins.
    pub start: usize,
    /// Tokens of each.
    pub len: usize,
    /// How many.
    pub rows: usize,
}

/// The spans of rows that begin at these offsets, the last of which is the end.
pub fn spans(offsets: &[usize]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for pair in offsets.windows(2) {
        let len = pair[1] - pair[0];
        match spans.last_mut() {
            Some(span) if span.len == len => span.rows += 1,
            _ => spans.push(Span { start: pair[0], len, rows: 1 }),
        }
    }
    spans
}

/// Addresses of queries, keys and values, or of their gradients, head-major by row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heads {
    /// `T[tokens][query dim]` in all.
    pub q: u64,
    /// `T[tokens][key dim]` in all.
    pub k: u64,
    /// `T[tokens][key dim]` in all.
    pub v: u64,
}

impl Heads {
    /// The three end to end from `address` on: `(query + 2 key) dim` numbers a token.
    pub fn joined(address: u64, tokens: usize, shape: Shape, dtype: Dtype) -> Heads {
        let part = |heads: u32| (tokens * heads as usize * shape.dim as usize * dtype.bytes()) as u64;
        let k = address + part(shape.query);
        Heads { q: address, k, v: k + part(shape.key) }
    }
}

/// Some key heads of a span, and what their products have in common.
struct Piece {
    /// Key heads.
    batch: usize,
    /// Tokens of the row.
    len: usize,
    /// Lines of queries to a key head.
    lines: usize,
    dim: usize,
    dtype: Dtype,
    /// Numbers before it in queries and in keys.
    queries: usize,
    keys: usize,
}

impl Piece {
    /// Queries, or what is shaped like them.
    fn q(&self, address: u64) -> Matrix {
        let at = address + (self.queries * self.dtype.bytes()) as u64;
        Matrix::new(at, self.dtype, self.dim).every(self.lines * self.dim)
    }

    /// Keys or values, or what is shaped like them.
    fn k(&self, address: u64) -> Matrix {
        let at = address + (self.keys * self.dtype.bytes()) as u64;
        Matrix::new(at, self.dtype, self.dim).every(self.len * self.dim)
    }

    /// A line of scores for every query.
    fn s(&self, address: u64, dtype: Dtype) -> Matrix {
        Matrix::new(address, dtype, self.len).every(self.lines * self.len)
    }

    fn product(
        &self,
        k: &Kernels,
        size: (usize, usize, usize),
        a: Matrix,
        b: Matrix,
        c: Matrix,
    ) -> Result<(), DeviceError> {
        product(k, Gemm { batch: self.batch, ..Gemm::new(size, a, b, c) })
    }
}

/// Cuts spans so that the `f32` scores of a piece take at most `bytes`, where one key head does not take more.
fn pieces(shape: Shape, dtype: Dtype, spans: &[Span], bytes: usize) -> Vec<Piece> {
    let (query, key, dim) = (shape.query as usize, shape.key as usize, shape.dim as usize);
    let mut pieces = Vec::new();
    for span in spans {
        let (heads, lines) = (span.rows * key, query / key * span.len);
        let most = (bytes / (size_of::<f32>() * lines * span.len)).clamp(1, heads);
        for first in (0..heads).step_by(most) {
            pieces.push(Piece {
                batch: most.min(heads - first),
                len: span.len,
                lines,
                dim,
                dtype,
                queries: span.start * query * dim + first * lines * dim,
                keys: span.start * key * dim + first * span.len * dim,
            });
        }
    }
    pieces
}

/// Work space for the largest piece.
struct Scores {
    scores: Buffer,
    probabilities: Buffer,
}

impl Scores {
    fn new(k: &Kernels, pieces: &[Piece]) -> Result<Scores, DeviceError> {
        let numbers = most(pieces);
        let scores = floats(k, "attention scores", numbers)?;
        Ok(Scores { scores, probabilities: room(k, "attention scores", numbers)? })
    }

    /// Fills the probabilities of a piece.
    fn fill(&self, k: &Kernels, piece: &Piece, heads: Heads, scale: f32) -> Result<(), DeviceError> {
        let size = (piece.lines, piece.len, piece.dim);
        let s = piece.s(self.scores.address(), Dtype::F32);
        piece.product(k, size, piece.q(heads.q), piece.k(heads.k).t(), s)?;
        let lines = (piece.batch * piece.lines) as u32;
        k.softmax(self.scores.address(), self.probabilities.address(), lines, piece.len as u32, scale)
    }
}

fn most(pieces: &[Piece]) -> usize {
    pieces.iter().map(|p| p.batch * p.lines * p.len).max().unwrap_or(0)
}

fn scale(shape: Shape) -> f32 {
    (1.0 / f64::from(shape.dim).sqrt()) as f32
}

/// Attention's output, head-major by row like the queries, into `out`. `bytes` is what the scores may take.
///
/// # Errors
/// When there is too little memory or the device fails.
pub fn forward(
    k: &Kernels,
    shape: Shape,
    spans: &[Span],
    heads: Heads,
    out: u64,
    bytes: usize,
) -> Result<(), DeviceError> {
    let pieces = pieces(shape, k.dtype, spans, bytes);
    let work = Scores::new(k, &pieces)?;
    for piece in &pieces {
        work.fill(k, piece, heads, scale(shape))?;
        let p = piece.s(work.probabilities.address(), k.dtype);
        piece.product(k, (piece.lines, piece.dim, piece.len), p, piece.k(heads.v), piece.q(out))?;
    }
    Ok(())
}

/// The gradients of queries, keys and values from that of [`forward`]'s output.
///
/// # Errors
/// When there is too little memory or the device fails.
pub fn backward(
    k: &Kernels,
    shape: Shape,
    spans: &[Span],
    heads: Heads,
    dout: u64,
    d: Heads,
    bytes: usize,
) -> Result<(), DeviceError> {
    let pieces = pieces(shape, k.dtype, spans, bytes);
    let work = Scores::new(k, &pieces)?;
    let slopes = room(k, "attention scores", most(&pieces))?;
    for piece in &pieces {
        let (lines, len, dim) = (piece.lines, piece.len, piece.dim);
        work.fill(k, piece, heads, scale(shape))?;
        let p = piece.s(work.probabilities.address(), k.dtype);
        let dout = piece.q(dout);
        piece.product(k, (len, dim, lines), p.t(), dout, piece.k(d.v))?;
        // The scores are not needed once there are probabilities; the gradient of those takes their place.
        let dp = piece.s(work.scores.address(), Dtype::F32);
        piece.product(k, (lines, len, dim), dout, piece.k(heads.v).t(), dp)?;
        let ds = piece.s(slopes.address(), k.dtype);
        let all = (piece.batch * lines) as u32;
        k.softmax_backward(p.address, dp.address, ds.address, all, len as u32, scale(shape))?;
        piece.product(k, (lines, dim, len), ds, piece.k(heads.k), piece.q(d.q))?;
        piece.product(k, (len, dim, lines), ds.t(), piece.q(heads.q), piece.k(d.k))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_rows_of_equal_length_are_one_span() {
        let expected = [(0, 3, 2), (6, 1, 1), (7, 3, 1)].map(|(start, len, rows)| Span { start, len, rows });
        assert_eq!(spans(&[0, 3, 6, 7, 10]), expected);
        assert_eq!(spans(&[0]), []);
    }

    #[test]
    fn pieces_keep_to_their_memory_and_cover_every_key_head_once() {
        let shape = Shape { query: 6, key: 2, dim: 4 };
        let spans = spans(&[0, 5, 10, 15, 17]);
        for bytes in [0, 4 * 15 * 5, 4 * 15 * 5 * 4, usize::MAX] {
            let pieces = pieces(shape, Dtype::F32, &spans, bytes);
            let mut next = (0, 0);
            for piece in &pieces {
                assert_eq!((piece.queries, piece.keys), next);
                assert!(piece.batch == 1 || 4 * piece.batch * piece.lines * piece.len <= bytes);
                next.0 += piece.batch * piece.lines * piece.dim;
                next.1 += piece.batch * piece.len * piece.dim;
            }
            assert_eq!(next, (17 * 6 * 4, 17 * 2 * 4));
        }
    }
}
