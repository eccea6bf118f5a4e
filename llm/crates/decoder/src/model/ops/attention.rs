//! Causal attention over ragged rows, with several query heads to a key head, by pages of 32 keys.
//!
//! Keys and values lie in pages whether they are those of the batch at hand (training, scoring) or of a cache (decoding), so
//! both read them with the same instructions in the same order: keys ascending from the row's first. A query's result is a
//! function of its row up to itself and nothing else. There are no padded positions, hence no masks and no empty rows.
//!
//! The backward pass computes the probabilities again from the saved log-sum, a block of queries at a time; gradients of
//! keys and values are summed over queries in ascending order, so the size of a block does not show.

use rayon::prelude::*;

use super::buffer::Pool;
use super::matmul::{Left, NR, Panels, pack_rows, pack_transposed, packed_len, serial};
use super::real::{Real, dot, max_of, sum_by};
use super::simd::{self, Kernel};

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
    /// Numbers of a page of one key head: keys by column, then values by row in panels of 32.
    pub const fn page(&self) -> usize {
        PAGE * self.dim + packed_len(PAGE, self.dim)
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

/// Turns scores into unnormalised probabilities in place; writes `1 / sum` and the log-sum per row.
struct Softmax<'a, T> {
    scores: &'a mut [T],
    stride: usize,
    /// Keys each row may see.
    seen: &'a [usize],
    scale: T,
    inverse: &'a mut [T],
    log_sum: &'a mut [T],
}

impl<T: Real> Kernel for Softmax<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let rows = self.scores.chunks_exact_mut(self.stride).zip(self.seen);
        for (((row, &seen), inverse), log_sum) in rows.zip(self.inverse).zip(self.log_sum) {
            let (row, rest) = row.split_at_mut(seen);
            rest.fill(T::ZERO);
            let max = max_of(row) * self.scale;
            for x in row.iter_mut() {
                *x = (*x * self.scale - max).exp();
            }
            let sum = sum_by(seen, |i| row[i]);
            *inverse = T::ONE / sum;
            *log_sum = max + sum.ln();
        }
    }
}

struct Scale<'a, T>(&'a mut [T], T);

impl<T: Real> Kernel for Scale<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for x in self.0.iter_mut() {
            *x *= self.1;
        }
    }
}

/// Attention of the queries of one row segment, key head `g`: `page(i)` is page `i` of that head.
///
/// `tokens` holds whole tokens of the fused projection, the first at position `first`; `out` (width [`Heads::width`]) and
/// `log_sum` (width `heads.query`) receive the columns of this group.
#[allow(clippy::too_many_arguments)]
fn attend<'p, T: Real>(
    pool: &Pool<T>,
    heads: Heads,
    g: usize,
    tokens: &[T],
    first: usize,
    page: impl Fn(usize) -> &'p [T],
    out: &mut [T],
    log_sum: Option<&mut [T]>,
) {
    let (d, group, stride) = (heads.dim, heads.group(), heads.stride());
    let queries = tokens.len() / stride;
    let rows = queries * group;
    let mut log_sum = log_sum;
    let most = (first + queries).next_multiple_of(PAGE);
    let mut scores = pool.take(BLOCK.min(rows) * most);
    let mut query = pool.take(BLOCK.min(rows) * d);
    let mut result = pool.take(BLOCK.min(rows) * d.next_multiple_of(NR));
    let wide = d.next_multiple_of(NR);
    for start in (0..rows).step_by(BLOCK) {
        let block = BLOCK.min(rows - start);
        let mut seen = [0; BLOCK];
        for i in 0..block {
            let (t, j) = ((start + i) / group, (start + i) % group);
            seen[i] = first + t + 1;
            let at = t * stride + (g * group + j) * d;
            query[i * d..(i + 1) * d].copy_from_slice(&tokens[at..at + d]);
        }
        let keys = seen[block - 1];
        let pages = keys.div_ceil(PAGE);
        let stride_s = pages * PAGE;
        for p in 0..pages {
            let keys = Panels::new(&page(p)[..PAGE * d], d, PAGE);
            serial(Left::rows(&query, d), block, keys, &mut scores[p * PAGE..], stride_s, false);
        }
        let (mut inverse, mut sums) = ([T::ZERO; BLOCK], [T::ZERO; BLOCK]);
        simd::run(Softmax {
            scores: &mut scores[..block * stride_s],
            stride: stride_s,
            seen: &seen[..block],
            scale: heads.scale(),
            inverse: &mut inverse,
            log_sum: &mut sums,
        });
        for p in 0..pages {
            let here = PAGE.min(keys - p * PAGE);
            let values = Panels::new(&page(p)[PAGE * d..], PAGE, wide).first_rows(here);
            serial(Left::rows(&scores[p * PAGE..], stride_s), block, values, &mut result, wide, p > 0);
        }
        for i in 0..block {
            let (t, j) = ((start + i) / group, (start + i) % group);
            let head = g * group + j;
            let at = t * heads.width() + head * d;
            out[at..at + d].copy_from_slice(&result[i * wide..i * wide + d]);
            simd::run(Scale(&mut out[at..at + d], inverse[i]));
            if let Some(log_sum) = log_sum.as_deref_mut() {
                log_sum[t * heads.query + head] = sums[i];
            }
        }
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

/// Each row attends to itself: the keys are those of `qkv`, whose rows are cut at `offsets`.
pub fn forward<T: Real>(
    pool: &Pool<T>,
    heads: Heads,
    qkv: &[T],
    offsets: &[usize],
    out: &mut [T],
    log_sum: &mut [T],
) {
    let outs = split_rows(out, offsets, heads.width());
    let sums = split_rows(log_sum, offsets, heads.query);
    let stride = heads.stride();
    outs.into_par_iter().zip(sums).zip(offsets.par_windows(2)).for_each(|((out, sums), pair)| {
        let tokens = &qkv[pair[0] * stride..pair[1] * stride];
        let len = pair[1] - pair[0];
        let mut pages = pool.take(len.div_ceil(PAGE) * heads.page());
        for g in 0..heads.key {
            for (t, token) in tokens.chunks_exact(stride).enumerate() {
                store(heads, g, token, t % PAGE, &mut pages[t / PAGE * heads.page()..][..heads.page()]);
            }
            let page = |p: usize| &pages[p * heads.page()..(p + 1) * heads.page()];
            attend(pool, heads, g, tokens, 0, page, out, Some(sums));
        }
    });
}

/// Where the keys of a row lie in a cache.
pub trait Pages<T>: Sync {
    /// Page `page` of row `row`, key head `g`.
    fn page(&self, row: usize, page: usize, g: usize) -> &[T];
    /// Position of the first query of row `row`.
    fn first(&self, row: usize) -> usize;
}

/// As [`forward`], with keys and values from a cache that already holds those of these tokens.
pub fn forward_cached<T: Real>(
    pool: &Pool<T>,
    heads: Heads,
    qkv: &[T],
    offsets: &[usize],
    cache: &impl Pages<T>,
    out: &mut [T],
) {
    let outs = split_rows(out, offsets, heads.width());
    let stride = heads.stride();
    let one = |(row, out): (usize, &mut [T])| {
        let tokens = &qkv[offsets[row] * stride..offsets[row + 1] * stride];
        for g in 0..heads.key {
            attend(pool, heads, g, tokens, cache.first(row), |p| cache.page(row, p, g), out, None);
        }
    };
    let rows = outs.len();
    let keys: usize = (0..rows).map(|r| (cache.first(r) + 1) * (offsets[r + 1] - offsets[r])).sum();
    if rayon::current_num_threads() == 1 || keys * heads.width() < 1 << 17 {
        outs.into_iter().enumerate().for_each(one);
    } else {
        outs.into_par_iter().enumerate().for_each(one);
    }
}

/// From scores and `d loss / d probabilities` to probabilities and `d loss / d scores` (the scale of the scores included).
struct SoftmaxBackward<'a, T> {
    scores: &'a mut [T],
    slopes: &'a mut [T],
    stride: usize,
    seen: &'a [usize],
    scale: T,
    log_sum: &'a [T],
    inner: &'a [T],
}

impl<T: Real> Kernel for SoftmaxBackward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let rows = self.scores.chunks_exact_mut(self.stride).zip(self.slopes.chunks_exact_mut(self.stride));
        for ((row, (scores, slopes)), &seen) in rows.enumerate().zip(self.seen) {
            let (log_sum, inner) = (self.log_sum[row], self.inner[row]);
            let (scores, past) = scores.split_at_mut(seen);
            past.fill(T::ZERO);
            let (slopes, past) = slopes.split_at_mut(seen);
            past.fill(T::ZERO);
            for i in 0..seen {
                let p = (scores[i] * self.scale - log_sum).exp();
                scores[i] = p;
                slopes[i] = p * (slopes[i] - inner) * self.scale;
            }
        }
    }
}

struct Dot<'a, T>(&'a [T], &'a [T]);

impl<T: Real> Kernel for Dot<'_, T> {
    type Output = T;
    #[inline(always)]
    fn run(self) -> T {
        dot(self.0, self.1)
    }
}

/// The gradient of [`forward`]: writes `d loss / d qkv` to `dqkv`.
#[allow(clippy::too_many_arguments)]
pub fn backward<T: Real>(
    pool: &Pool<T>,
    heads: Heads,
    qkv: &[T],
    offsets: &[usize],
    out: &[T],
    log_sum: &[T],
    dout: &[T],
    dqkv: &mut [T],
) {
    let (stride, width) = (heads.stride(), heads.width());
    split_rows(dqkv, offsets, stride).into_par_iter().zip(offsets.par_windows(2)).for_each(|(dqkv, pair)| {
        let (from, to) = (pair[0], pair[1]);
        let row = Row {
            heads,
            tokens: &qkv[from * stride..to * stride],
            out: &out[from * width..to * width],
            log_sum: &log_sum[from * heads.query..to * heads.query],
            dout: &dout[from * width..to * width],
        };
        for g in 0..heads.key {
            row.backward(pool, g, dqkv);
        }
    });
}

/// One row of the batch, in [`backward`].
struct Row<'a, T> {
    heads: Heads,
    tokens: &'a [T],
    out: &'a [T],
    log_sum: &'a [T],
    dout: &'a [T],
}

impl<T: Real> Row<'_, T> {
    fn backward(&self, pool: &Pool<T>, g: usize, dqkv: &mut [T]) {
        let heads = self.heads;
        let (d, group, stride, width) = (heads.dim, heads.group(), heads.stride(), heads.width());
        let wide = d.next_multiple_of(NR);
        let len = self.tokens.len() / stride;
        let rows = len * group;
        let keys_at = &self.tokens[heads.key_at(g)..];
        let mut keys_t = pool.take(packed_len(d, len));
        pack_transposed(keys_at, stride, d, len, &mut keys_t);
        let mut keys = pool.take(packed_len(len, d));
        pack_rows(keys_at, stride, len, d, &mut keys);
        let mut values_t = pool.take(packed_len(d, len));
        pack_transposed(&self.tokens[heads.value_at(g)..], stride, d, len, &mut values_t);
        let (keys_t, values_t) = (Panels::new(&keys_t, d, len), Panels::new(&values_t, d, len));
        let keys = Panels::new(&keys, len, d);

        let mut dkeys = pool.zeros(len * d);
        let mut dvalues = pool.zeros(len * d);
        let block = BLOCK.min(rows);
        let mut scores = pool.take(block * len);
        let mut slopes = pool.take(block * len);
        let mut query = pool.take(block * d);
        let mut dblock = pool.take(block * d);
        let mut dquery = pool.take(block * d);
        let mut packed = pool.take(block * wide);
        for start in (0..rows).step_by(BLOCK) {
            let block = BLOCK.min(rows - start);
            let (mut seen, mut sums, mut inner) = ([0; BLOCK], [T::ZERO; BLOCK], [T::ZERO; BLOCK]);
            for i in 0..block {
                let (t, head) = ((start + i) / group, g * group + (start + i) % group);
                seen[i] = t + 1;
                sums[i] = self.log_sum[t * heads.query + head];
                query[i * d..(i + 1) * d].copy_from_slice(&self.tokens[t * stride + head * d..][..d]);
                let dout = &self.dout[t * width + head * d..][..d];
                dblock[i * d..(i + 1) * d].copy_from_slice(dout);
                inner[i] = simd::run(Dot(dout, &self.out[t * width + head * d..][..d]));
            }
            let n = seen[block - 1];
            serial(Left::rows(&query, d), block, keys_t.first_columns(n), &mut scores, n, false);
            serial(Left::rows(&dblock, d), block, values_t.first_columns(n), &mut slopes, n, false);
            simd::run(SoftmaxBackward {
                scores: &mut scores[..block * n],
                slopes: &mut slopes[..block * n],
                stride: n,
                seen: &seen[..block],
                scale: heads.scale(),
                log_sum: &sums,
                inner: &inner,
            });
            serial(Left::rows(&slopes, n), block, keys.first_rows(n), &mut dquery, d, false);
            for i in 0..block {
                let (t, head) = ((start + i) / group, g * group + (start + i) % group);
                dqkv[t * stride + head * d..][..d].copy_from_slice(&dquery[i * d..(i + 1) * d]);
            }
            let packed = &mut packed[..block * wide];
            pack_rows(&query, d, block, d, packed);
            serial(Left::transposed(&slopes, n), n, Panels::new(packed, block, d), &mut dkeys, d, true);
            pack_rows(&dblock, d, block, d, packed);
            serial(Left::transposed(&scores, n), n, Panels::new(packed, block, d), &mut dvalues, d, true);
        }
        for (t, token) in dqkv.chunks_exact_mut(stride).enumerate() {
            token[heads.key_at(g)..][..d].copy_from_slice(&dkeys[t * d..(t + 1) * d]);
            token[heads.value_at(g)..][..d].copy_from_slice(&dvalues[t * d..(t + 1) * d]);
        }
    }
}
