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

use grpo_lambda_decoder::device::DeviceError;

use super::array::Array;
use super::gemm::{Gemm, Matrix, MatrixMut};
use super::kernels::{HeadShape, Kernels, Softmax, SoftmaxBackward};
use super::ptr::{Access, Element, Float, Ptr, PtrMut, Read, Real, Write};
use super::spans::RowSpan;

/// Use of the scores in the ledger.
const SCORES: &str = "attention scores";

/// Queries, keys and values, or their gradients, head-major by row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Qkv<A = Read> {
    /// `query dim` elements a token.
    pub(super) q: Ptr<Real, A>,
    /// `key dim` elements a token.
    pub(super) k: Ptr<Real, A>,
    /// `key dim` elements a token.
    pub(super) v: Ptr<Real, A>,
}

impl<A: Access> Qkv<A> {
    /// The three end to end from `q` on: `(query + 2 key) dim` elements a token.
    pub(super) fn joined(q: Ptr<Real, A>, tokens: usize, heads: HeadShape) -> Self {
        let part = |count: u32| tokens * count as usize * heads.dim as usize;
        let k = q.offset(part(heads.query));
        Qkv { q, k, v: k.offset(part(heads.key)) }
    }
}

/// Some key heads of a span, and what their products have in common.
struct Chunk {
    /// Key heads.
    batch: usize,
    /// Tokens of the row.
    len: usize,
    /// Lines of queries to a key head.
    lines: usize,
    dim: usize,
    /// Elements before it in queries and in keys.
    queries: usize,
    keys: usize,
}

impl Chunk {
    /// Queries, or what is shaped like them.
    fn q<A: Access>(&self, q: Ptr<Real, A>) -> Matrix<A> {
        Matrix::new(q.offset(self.queries), self.dim).every(self.lines * self.dim)
    }

    /// Keys or values, or what is shaped like them.
    fn k<A: Access>(&self, k: Ptr<Real, A>) -> Matrix<A> {
        Matrix::new(k.offset(self.keys), self.dim).every(self.len * self.dim)
    }

    /// A line of scores, or of what is shaped like them, for every query.
    fn scores<T: Float, A: Access>(&self, scores: Ptr<T, A>) -> Matrix<A> {
        Matrix::new(scores, self.len).every(self.lines * self.len)
    }

    fn gemm(&self, size: (usize, usize, usize), a: Matrix, b: Matrix, c: MatrixMut) -> Gemm {
        Gemm { batch: self.batch, ..Gemm::new(size, a, b, c) }
    }
}

/// Cuts spans so that the `f32` scores of a chunk take at most `bytes`, where one key head does not take more.
fn chunks(heads: HeadShape, spans: &[RowSpan], bytes: usize) -> Vec<Chunk> {
    let (query, key, dim) = (heads.query as usize, heads.key as usize, heads.dim as usize);
    let mut chunks = Vec::new();
    for span in spans {
        let (count, lines) = (span.rows * key, query / key * span.len);
        let most = (bytes / (size_of::<f32>() * lines * span.len)).clamp(1, count);
        for first in (0..count).step_by(most) {
            chunks.push(Chunk {
                batch: most.min(count - first),
                len: span.len,
                lines,
                dim,
                queries: span.start * query * dim + first * lines * dim,
                keys: span.start * key * dim + first * span.len * dim,
            });
        }
    }
    chunks
}

/// Causal attention within the rows of a batch.
pub(super) struct Attention<'a> {
    kernels: &'a Kernels,
    chunks: Vec<Chunk>,
    scale: f32,
}

/// Scores of the largest chunk, and their softmax.
struct Workspace {
    scores: Array<f32>,
    probabilities: Array<Real>,
}

impl<'a> Attention<'a> {
    /// Over these rows. `bytes` is what the scores may take at a time.
    pub(super) fn new(kernels: &'a Kernels, heads: HeadShape, spans: &[RowSpan], bytes: usize) -> Self {
        let scale = (1.0 / f64::from(heads.dim).sqrt()) as f32;
        Attention { kernels, chunks: chunks(heads, spans, bytes), scale }
    }

    fn array<T: Element>(&self) -> Result<Array<T>, DeviceError> {
        let most = self.chunks.iter().map(|c| c.batch * c.lines * c.len).max().unwrap_or(0);
        self.kernels.array(SCORES, most)
    }

    fn workspace(&self) -> Result<Workspace, DeviceError> {
        Ok(Workspace { scores: self.array()?, probabilities: self.array()? })
    }

    /// Computes the probabilities of a chunk.
    fn probabilities(&self, chunk: &Chunk, qkv: Qkv, work: &Workspace) -> Result<(), DeviceError> {
        let size = (chunk.lines, chunk.len, chunk.dim);
        let scores = chunk.scores(work.scores.ptr_mut());
        self.kernels.gemm(chunk.gemm(size, chunk.q(qkv.q), chunk.k(qkv.k).t(), scores))?;
        self.kernels.launch(Softmax {
            scores: work.scores.ptr(),
            probabilities: work.probabilities.ptr_mut(),
            lines: (chunk.batch * chunk.lines) as u32,
            len: chunk.len as u32,
            scale: self.scale,
        })
    }

    /// Attention's output into `out`, head-major by row like the queries.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    pub(super) fn forward(&self, qkv: Qkv, out: PtrMut<Real>) -> Result<(), DeviceError> {
        let work = self.workspace()?;
        for chunk in &self.chunks {
            self.probabilities(chunk, qkv, &work)?;
            let p = chunk.scores(work.probabilities.ptr());
            let size = (chunk.lines, chunk.dim, chunk.len);
            self.kernels.gemm(chunk.gemm(size, p, chunk.k(qkv.v), chunk.q(out)))?;
        }
        Ok(())
    }

    /// The gradients `d` of queries, keys and values from that of [`Attention::forward`]'s output.
    ///
    /// # Errors
    /// When there is too little memory or the device fails.
    pub(super) fn backward(&self, qkv: Qkv, dout: Ptr<Real>, d: Qkv<Write>) -> Result<(), DeviceError> {
        let (k, work) = (self.kernels, self.workspace()?);
        let dscores: Array<Real> = self.array()?;
        for chunk in &self.chunks {
            let (lines, len, dim) = (chunk.lines, chunk.len, chunk.dim);
            self.probabilities(chunk, qkv, &work)?;
            let dout = chunk.q(dout);
            let p = chunk.scores(work.probabilities.ptr());
            k.gemm(chunk.gemm((len, dim, lines), p.t(), dout, chunk.k(d.v)))?;
            // The scores are not needed once there are probabilities; the gradient of those takes their place.
            let dp = &work.scores;
            k.gemm(chunk.gemm((lines, len, dim), dout, chunk.k(qkv.v).t(), chunk.scores(dp.ptr_mut())))?;
            k.launch(SoftmaxBackward {
                p: work.probabilities.ptr(),
                dp: dp.ptr(),
                ds: dscores.ptr_mut(),
                lines: (chunk.batch * lines) as u32,
                len: len as u32,
                scale: self.scale,
            })?;
            let ds = chunk.scores(dscores.ptr());
            k.gemm(chunk.gemm((lines, dim, len), ds, chunk.k(qkv.k), chunk.q(d.q)))?;
            k.gemm(chunk.gemm((len, dim, lines), ds.t(), chunk.q(qkv.q), chunk.k(d.k)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spans::spans;

    #[test]
    fn chunks_keep_to_their_memory_and_cover_every_key_head_once() {
        let heads = HeadShape { query: 6, key: 2, dim: 4 };
        let spans = spans(&[0, 5, 10, 15, 17]);
        for bytes in [0, 4 * 15 * 5, 4 * 15 * 5 * 4, usize::MAX] {
            let mut next = (0, 0);
            for chunk in &chunks(heads, &spans, bytes) {
                assert_eq!((chunk.queries, chunk.keys), next);
                assert!(chunk.batch == 1 || 4 * chunk.batch * chunk.lines * chunk.len <= bytes);
                next.0 += chunk.batch * chunk.lines * chunk.dim;
                next.1 += chunk.batch * chunk.len * chunk.dim;
            }
            assert_eq!(next, (17 * 6 * 4, 17 * 2 * 4));
        }
    }
}
