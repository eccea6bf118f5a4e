//! Attention forwards: over the rows of a batch, or over a cache.

use super::{BLOCK, Heads, PAGE, Pages, split_rows, store};
use crate::model::ops::buffer::Pool;
use crate::model::ops::matmul::{Left, NR, Panels, serial};
use crate::model::ops::parallel;
use crate::model::ops::real::Real;
use crate::model::ops::simd::kernel;
use crate::model::ops::sums::{max_of, sum_by};

kernel! {
    /// Turns scores into unnormalised probabilities; writes `1 / sum` and the log-sum per row, of which the first `visible` keys are seen.
    fn softmax<T: Real>(
        scores: &mut [T],
        stride: usize,
        visible: &[usize],
        scale: T,
        inverse: &mut [T],
        log_sum: &mut [T],
    ) {
        let rows = scores.chunks_exact_mut(stride).zip(visible);
        for (((row, &visible), inverse), log_sum) in rows.zip(inverse).zip(log_sum) {
            let (row, rest) = row.split_at_mut(visible);
            rest.fill(T::ZERO);
            let max = max_of(row) * scale;
            for x in row.iter_mut() {
                *x = (*x * scale - max).exp();
            }
            let sum = sum_by(visible, |i| row[i]);
            *inverse = T::ONE / sum;
            *log_sum = max + sum.ln();
        }
    }
}

kernel! {
    fn multiply<T: Real>(x: &mut [T], factor: T) {
        for x in x.iter_mut() {
            *x *= factor;
        }
    }
}

/// The queries of one row segment whose key head is `g`: a line per token and query head of the group.
struct Segment<'a, T> {
    heads: Heads,
    g: usize,
    /// Whole tokens of the fused projection.
    tokens: &'a [T],
    /// Position of the first of them.
    first: usize,
}

impl<T: Real> Segment<'_, T> {
    fn lines(&self) -> usize {
        self.tokens.len() / self.heads.stride() * self.heads.group()
    }

    /// Token and query head of a line.
    fn place(&self, line: usize) -> (usize, usize) {
        let group = self.heads.group();
        (line / group, self.g * group + line % group)
    }

    /// Copies the queries of `block` lines from `start` on; how many keys each may see.
    fn gather(&self, start: usize, block: usize, query: &mut [T]) -> [usize; BLOCK] {
        let (d, stride) = (self.heads.dim, self.heads.stride());
        let mut visible = [0; BLOCK];
        for (i, query) in query.chunks_exact_mut(d).take(block).enumerate() {
            let (t, head) = self.place(start + i);
            visible[i] = self.first + t + 1;
            query.copy_from_slice(&self.tokens[t * stride + head * d..][..d]);
        }
        visible
    }

    /// Attention to the pages `page(0), page(1), ...` of key head `g`; `out` (width [`Heads::width`]) and `log_sum` (width
    /// `heads.query`) receive the columns of this group.
    fn attend<'p>(
        &self,
        pool: &Pool<T>,
        page: impl Fn(usize) -> &'p [T],
        out: &mut [T],
        mut log_sum: Option<&mut [T]>,
    ) {
        let (heads, d, lines) = (self.heads, self.heads.dim, self.lines());
        let wide = d.next_multiple_of(NR);
        let most = (self.first + lines / heads.group()).next_multiple_of(PAGE);
        let mut scores = pool.take(BLOCK.min(lines) * most);
        let mut query = pool.take(BLOCK.min(lines) * d);
        let mut result = pool.take(BLOCK.min(lines) * wide);
        for start in (0..lines).step_by(BLOCK) {
            let block = BLOCK.min(lines - start);
            let visible = self.gather(start, block, &mut query);
            let keys = visible[block - 1];
            let pages = keys.div_ceil(PAGE);
            let stride = pages * PAGE;
            for p in 0..pages {
                let keys = Panels::new(&page(p)[..PAGE * d], d, PAGE);
                serial(Left::rows(&query, d), block, keys, &mut scores[p * PAGE..], stride, false);
            }
            let (mut inverse, mut sums) = ([T::ZERO; BLOCK], [T::ZERO; BLOCK]);
            let (scores_here, visible) = (&mut scores[..block * stride], &visible[..block]);
            softmax(scores_here, stride, visible, heads.scale(), &mut inverse, &mut sums);
            for p in 0..pages {
                let here = PAGE.min(keys - p * PAGE);
                let values = Panels::new(&page(p)[PAGE * d..], PAGE, wide).first_rows(here);
                serial(Left::rows(&scores[p * PAGE..], stride), block, values, &mut result, wide, p > 0);
            }
            for (i, result) in result.chunks_exact(wide).take(block).enumerate() {
                let (t, head) = self.place(start + i);
                let out = &mut out[t * heads.width() + head * d..][..d];
                out.copy_from_slice(&result[..d]);
                multiply(out, inverse[i]);
                if let Some(log_sum) = log_sum.as_deref_mut() {
                    log_sum[t * heads.query + head] = sums[i];
                }
            }
        }
    }
}

/// The attention of rows, cut at `offsets`, to themselves. Row `i` sees the tokens `before[i]` before its own: whole tokens of the fused
/// projection, rotated.
pub fn forward<T: Real>(
    pool: &Pool<T>,
    heads: Heads,
    qkv: &[T],
    offsets: &[usize],
    before: &[&[T]],
    out: &mut [T],
    log_sum: &mut [T],
) {
    let outs = split_rows(out, offsets, heads.width());
    let sums = split_rows(log_sum, offsets, heads.query);
    let stride = heads.stride();
    let rows = outs.into_iter().zip(sums).zip(offsets.windows(2)).zip(before);
    parallel::parts(rows.collect(), |(((out, sums), pair), before)| {
        let tokens = &qkv[pair[0] * stride..pair[1] * stride];
        let first = before.len() / stride;
        let len = first + pair[1] - pair[0];
        let mut pages = pool.take(len.div_ceil(PAGE) * heads.page());
        for g in 0..heads.key {
            for (t, token) in before.chunks_exact(stride).chain(tokens.chunks_exact(stride)).enumerate() {
                store(heads, g, token, t % PAGE, &mut pages[t / PAGE * heads.page()..][..heads.page()]);
            }
            let page = |p: usize| &pages[p * heads.page()..(p + 1) * heads.page()];
            Segment { heads, g, tokens, first }.attend(pool, page, out, Some(sums));
        }
    });
}

/// [`forward`] with keys and values from a cache that already holds those of these tokens.
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
            let segment = Segment { heads, g, tokens, first: cache.first(row) };
            segment.attend(pool, |p| cache.page(row, p, g), out, None);
        }
    };
    let rows = outs.len();
    let keys: usize = (0..rows).map(|r| (cache.first(r) + 1) * (offsets[r + 1] - offsets[r])).sum();
    if keys * heads.width() < 1 << 17 {
        outs.into_iter().enumerate().for_each(one);
    } else {
        parallel::parts(outs.into_iter().enumerate().collect(), one);
    }
}
