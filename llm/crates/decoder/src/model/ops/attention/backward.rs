//! Attention backwards, a row and key head at a time.

use super::{BLOCK, Heads, split_rows};
use crate::model::ops::buffer::{Buffer, Pool};
use crate::model::ops::matmul::{Left, NR, Panels, pack_rows, pack_transposed, packed_len, serial};
use crate::model::ops::parallel;
use crate::model::ops::real::Real;
use crate::model::ops::simd::kernel;
use crate::model::ops::sums::dot;

kernel! {
    /// From scores and `d loss / d probabilities` to probabilities and `d loss / d scores`, the scale of the scores included.
    fn softmax_backward<T: Real>(
        scores: &mut [T],
        slopes: &mut [T],
        stride: usize,
        visible: &[usize],
        scale: T,
        log_sum: &[T],
        inner: &[T],
    ) {
        let rows = scores.chunks_exact_mut(stride).zip(slopes.chunks_exact_mut(stride));
        for ((row, (scores, slopes)), &visible) in rows.enumerate().zip(visible) {
            let (log_sum, inner) = (log_sum[row], inner[row]);
            let (scores, past) = scores.split_at_mut(visible);
            past.fill(T::ZERO);
            let (slopes, past) = slopes.split_at_mut(visible);
            past.fill(T::ZERO);
            for i in 0..visible {
                let p = (scores[i] * scale - log_sum).exp();
                scores[i] = p;
                slopes[i] = p * (slopes[i] - inner) * scale;
            }
        }
    }
}

kernel! {
    fn inner_product<T: Real>(a: &[T], b: &[T]) -> T {
        dot(a, b)
    }
}

/// The relation of a row to others.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a, T> {
    /// Whole tokens of the fused projection, rotated, that the row sees before its own.
    pub before: &'a [T],
    /// Index of the sum for the gradients of their keys and values.
    pub sum: usize,
    /// Gradients of the row's own keys and values from rows that continue it; nothing where none does.
    pub own: &'a [T],
}

/// The gradient of [`forward`](super::forward()): writes `d loss / d qkv` to `dqkv`, and adds to `sums`, `[tokens before, 2 key dim]` each,
/// the gradients of the keys and values before the rows. Each of their numbers is one chain of sums over the queries of all rows that see
/// it, in the order of the rows, which the rows of another call continue.
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
    contexts: &[Context<'_, T>],
    sums: &mut [Vec<T>],
) {
    let (stride, width) = (heads.stride(), heads.width());
    // Rows that add to one sum do so one after the other.
    let mut chains: Vec<Chain<'_, T>> =
        sums.iter_mut().map(|sum| Chain { rows: Vec::new(), sum: Some(sum) }).collect();
    for (i, dqkv) in split_rows(dqkv, offsets, stride).into_iter().enumerate() {
        match contexts[i].before.is_empty() {
            true => chains.push(Chain { rows: vec![(i, dqkv)], sum: None }),
            false => chains[contexts[i].sum].rows.push((i, dqkv)),
        }
    }
    parallel::parts(chains, |Chain { rows, mut sum }| {
        for (i, dqkv) in rows {
            let (from, to, context) = (offsets[i], offsets[i + 1], contexts[i]);
            let own = &qkv[from * stride..to * stride];
            let joined = (!context.before.is_empty()).then(|| joined(pool, context.before, own));
            let row = Row {
                heads,
                tokens: joined.as_deref().unwrap_or(own),
                first: context.before.len() / stride,
                own: context.own,
                out: &out[from * width..to * width],
                log_sum: &log_sum[from * heads.query..to * heads.query],
                dout: &dout[from * width..to * width],
            };
            for g in 0..heads.key {
                let sum = match sum.as_deref_mut() {
                    Some(sum) => sum.as_mut_slice(),
                    None => &mut [],
                };
                row.backward(pool, g, dqkv, sum);
            }
        }
    });
}

/// Rows that add to one sum, in their order, with what is written for each; or a row alone.
struct Chain<'a, T> {
    rows: Vec<(usize, &'a mut [T])>,
    sum: Option<&'a mut Vec<T>>,
}

/// The tokens of a row after those before it.
fn joined<T: Real>(pool: &Pool<T>, before: &[T], own: &[T]) -> Buffer<T> {
    let mut all = pool.take(before.len() + own.len());
    all[..before.len()].copy_from_slice(before);
    all[before.len()..].copy_from_slice(own);
    all
}

/// One row of the batch.
struct Row<'a, T> {
    heads: Heads,
    /// The `first` tokens before the row, then its own.
    tokens: &'a [T],
    first: usize,
    /// See [`Context`].
    own: &'a [T],
    out: &'a [T],
    log_sum: &'a [T],
    dout: &'a [T],
}

/// A block of queries on their way back: a line per token and query head of the group.
struct Block<T> {
    /// Keys that each line may see.
    visible: [usize; BLOCK],
    log_sum: [T; BLOCK],
    /// `out . dout` of each line.
    inner: [T; BLOCK],
    query: Buffer<T>,
    dout: Buffer<T>,
}

/// Keys and values of one key head, packed for the products of the backward pass.
struct Packed<T> {
    keys: Buffer<T>,
    keys_transposed: Buffer<T>,
    values_transposed: Buffer<T>,
}

impl<T: Real> Packed<T> {
    fn new(pool: &Pool<T>, row: &Row<'_, T>, g: usize) -> Self {
        let (heads, d, stride) = (row.heads, row.heads.dim, row.heads.stride());
        let len = row.tokens.len() / stride;
        let (keys_at, values_at) = (&row.tokens[heads.key_at(g)..], &row.tokens[heads.value_at(g)..]);
        let mut keys = pool.take(packed_len(len, d));
        pack_rows(|t| &keys_at[t * stride..], len, d, &mut keys);
        let transposed = |from: &[T]| {
            let mut packed = pool.take(packed_len(d, len));
            pack_transposed(|t| &from[t * stride..], d, len, &mut packed);
            packed
        };
        Self { keys, keys_transposed: transposed(keys_at), values_transposed: transposed(values_at) }
    }
}

impl<T: Real> Row<'_, T> {
    /// Token, counted from the row's first own, and query head of a line of key head `g`.
    fn place(&self, g: usize, line: usize) -> (usize, usize) {
        let group = self.heads.group();
        (line / group, g * group + line % group)
    }

    /// Reads `n` lines of key head `g` from `start` on.
    fn gather(&self, g: usize, start: usize, n: usize, block: &mut Block<T>) {
        let (heads, d) = (self.heads, self.heads.dim);
        for i in 0..n {
            let (t, head) = self.place(g, start + i);
            block.visible[i] = self.first + t + 1;
            block.log_sum[i] = self.log_sum[t * heads.query + head];
            let query = &self.tokens[(self.first + t) * heads.stride() + head * d..][..d];
            let at = t * heads.width() + head * d;
            let dout = &self.dout[at..at + d];
            block.query[i * d..(i + 1) * d].copy_from_slice(query);
            block.dout[i * d..(i + 1) * d].copy_from_slice(dout);
            block.inner[i] = inner_product(dout, &self.out[at..at + d]);
        }
    }

    /// Initial gradients of the keys, or values, of one head, which begins at `at` of the cached numbers.
    fn begun(&self, pool: &Pool<T>, at: usize, sum: &[T]) -> Buffer<T> {
        let (d, cached) = (self.heads.dim, self.heads.cached());
        let mut begun = pool.zeros(self.tokens.len() / self.heads.stride() * d);
        let (before, own) = begun.split_at_mut(self.first * d);
        for (to, from) in [(before, sum), (own, self.own)] {
            for (to, from) in to.chunks_exact_mut(d).zip(from.chunks_exact(cached)) {
                to.copy_from_slice(&from[at..at + d]);
            }
        }
        begun
    }

    /// Writes the gradients of key head `g` and of the query heads it serves, and to `sum` those of what is before the row.
    fn backward(&self, pool: &Pool<T>, g: usize, dqkv: &mut [T], sum: &mut [T]) {
        let (heads, d, stride) = (self.heads, self.heads.dim, self.heads.stride());
        let (len, wide) = (self.tokens.len() / stride, d.next_multiple_of(NR));
        let lines = (len - self.first) * heads.group();
        let [key_at, value_at] = [g * d, (heads.key + g) * d];
        let packed = Packed::new(pool, self, g);
        let keys = Panels::new(&packed.keys, len, d);
        let keys_transposed = Panels::new(&packed.keys_transposed, d, len);
        let values_transposed = Panels::new(&packed.values_transposed, d, len);
        let (mut dkeys, mut dvalues) = (self.begun(pool, key_at, sum), self.begun(pool, value_at, sum));
        let most = BLOCK.min(lines);
        let zeros = [T::ZERO; BLOCK];
        let (query, dout) = (pool.take(most * d), pool.take(most * d));
        let mut block = Block { visible: [0; BLOCK], log_sum: zeros, inner: zeros, query, dout };
        let (mut scores, mut slopes) = (pool.take(most * len), pool.take(most * len));
        let (mut dquery, mut right) = (pool.take(most * d), pool.take(most * wide));
        for start in (0..lines).step_by(BLOCK) {
            let rows = BLOCK.min(lines - start);
            self.gather(g, start, rows, &mut block);
            let n = block.visible[rows - 1];
            let (query, dout) = (Left::rows(&block.query, d), Left::rows(&block.dout, d));
            serial(query, rows, keys_transposed.first_columns(n), &mut scores, n, false);
            serial(dout, rows, values_transposed.first_columns(n), &mut slopes, n, false);
            let visible = &block.visible[..rows];
            let (probabilities, scale) = (&mut scores[..rows * n], heads.scale());
            let slopes_here = &mut slopes[..rows * n];
            softmax_backward(probabilities, slopes_here, n, visible, scale, &block.log_sum, &block.inner);
            serial(Left::rows(&slopes, n), rows, keys.first_rows(n), &mut dquery, d, false);
            for (i, dquery) in dquery.chunks_exact(d).take(rows).enumerate() {
                let (t, head) = self.place(g, start + i);
                dqkv[t * stride + head * d..][..d].copy_from_slice(dquery);
            }
            let right = &mut right[..rows * wide];
            pack_rows(|i| &block.query[i * d..], rows, d, right);
            serial(Left::transposed(&slopes, n), n, Panels::new(right, rows, d), &mut dkeys, d, true);
            pack_rows(|i| &block.dout[i * d..], rows, d, right);
            serial(Left::transposed(&scores, n), n, Panels::new(right, rows, d), &mut dvalues, d, true);
        }
        self.put_keys(g, &dkeys, &dvalues, sum, dqkv);
    }

    /// Writes the gradients of the keys and values of head `g`: those before the row to `sum`, its own to `dqkv`.
    fn put_keys(&self, g: usize, dkeys: &[T], dvalues: &[T], sum: &mut [T], dqkv: &mut [T]) {
        let (heads, d, stride) = (self.heads, self.heads.dim, self.heads.stride());
        let [key_at, value_at] = [g * d, (heads.key + g) * d];
        let mut gradients = dkeys.chunks_exact(d).zip(dvalues.chunks_exact(d));
        for (token, (dkey, dvalue)) in
            sum.chunks_exact_mut(heads.cached()).zip(gradients.by_ref().take(self.first))
        {
            token[key_at..][..d].copy_from_slice(dkey);
            token[value_at..][..d].copy_from_slice(dvalue);
        }
        for (token, (dkey, dvalue)) in dqkv.chunks_exact_mut(stride).zip(gradients) {
            token[heads.key_at(g)..][..d].copy_from_slice(dkey);
            token[heads.value_at(g)..][..d].copy_from_slice(dvalue);
        }
    }
}
