//! The log-probability of chosen tokens, and the entropy, a few tokens at a time unless the backward pass is to find the logits of all.
//!
//! With `z = logits / temperature`: `log p_t = (z_t - max z) - ln sum_j e^(z_j - max z)`. The sampler normalises a row of
//! logits with the same function, so its log-probabilities are those of training to the last bit.

use super::buffer::{Buffer, Pool};
use super::matmul::{Left, NR, Panels, matmul, pack_rows, packed_len};
use super::parallel::{by_token, threads};
use super::real::Real;
use super::simd::kernel;
use super::sums::{max_of, sum_by};

/// Most logits held at a time (32 MiB of `f32`), unless 48 tokens alone need more.
const LOGITS: usize = 1 << 23;

/// Most logits that a forward pass keeps for its backward pass (256 MiB of `f32`).
const KEPT: usize = 1 << 26;

/// Tokens whose logits are computed together.
pub fn chunk(vocabulary: usize) -> usize {
    (LOGITS / vocabulary).clamp(48, 1536) / 48 * 48
}

/// True if a forward pass keeps the logits of so many tokens: a product less in the backward pass, for their memory.
pub fn keeps(tokens: usize, vocabulary: usize) -> bool {
    tokens * vocabulary <= KEPT
}

/// The normaliser of a row of logits: the largest tempered logit, and the logarithm of the sum of exponentials above it.
#[inline(always)]
fn normaliser<T: Real>(logits: &[T], inverse_temperature: T) -> (T, T) {
    let max = max_of(logits) * inverse_temperature;
    (max, sum_by(logits.len(), |j| (logits[j] * inverse_temperature - max).exp()).ln())
}

#[inline(always)]
fn log_prob<T: Real>(logit: T, inverse_temperature: T, (max, log_sum): (T, T)) -> T {
    (logit * inverse_temperature - max) - log_sum
}

kernel! {
    fn log_softmax_row<T: Real>(logits: &mut [T], inverse_temperature: T) {
        let normaliser = normaliser(logits, inverse_temperature);
        for x in logits.iter_mut() {
            *x = log_prob(*x, inverse_temperature, normaliser);
        }
    }
}

/// Rows of logits become the log-probabilities of every token at temperature `1 / inverse_temperature`.
pub fn log_softmax<T: Real>(logits: &mut [T], vocabulary: usize, inverse_temperature: T) {
    by_token(logits, vocabulary, |_, logits| {
        for row in logits.chunks_exact_mut(vocabulary) {
            log_softmax_row(row, inverse_temperature);
        }
    });
}

kernel! {
    /// Writes log-probability, entropy if wanted, largest tempered logit and log-sum of every token.
    fn score<T: Real>(
        logits: &[T],
        vocabulary: usize,
        targets: &[u32],
        it: T,
        entropy: bool,
        out: &mut [T],
    ) {
        let rows = logits.chunks_exact(vocabulary).zip(targets);
        for ((logits, &target), out) in rows.zip(out.chunks_exact_mut(4)) {
            let (max, log_sum) = normaliser(logits, it);
            out[0] = log_prob(logits[target as usize], it, (max, log_sum));
            out[2] = max;
            out[3] = log_sum;
            if entropy {
                // H = ln S - sum_j p_j (z_j - max)
                let mean = sum_by(logits.len(), |j| {
                    let z = logits[j] * it - max;
                    // A logit of minus infinity has probability 0 and adds nothing, rather than 0 * inf.
                    let p = (z - log_sum).exp();
                    if p > T::ZERO { p * z } else { T::ZERO }
                });
                out[1] = log_sum - mean;
            }
        }
    }
}

/// Writes four numbers per token to `out`: log-probability of its target, entropy (when asked for), and the two of the
/// normaliser. `hidden` is the normed last layer, `head` the packed output matrix (`width x vocabulary`). Returns the logits if `keep`.
#[allow(clippy::too_many_arguments)]
pub fn forward<T: Real>(
    pool: &Pool<T>,
    hidden: &[T],
    width: usize,
    head: Panels<'_, T>,
    vocabulary: usize,
    targets: &[u32],
    inverse_temperature: T,
    (entropy, keep): (bool, bool),
    out: &mut [T],
) -> Option<Buffer<T>> {
    let size = chunk(vocabulary).min(targets.len().max(1));
    let mut all = pool.take(if keep { targets.len() } else { size } * vocabulary);
    for (i, ((targets, hidden), out)) in
        targets.chunks(size).zip(hidden.chunks(size * width)).zip(out.chunks_mut(4 * size)).enumerate()
    {
        let first = if keep { i * size } else { 0 };
        let logits = &mut all[first * vocabulary..][..targets.len() * vocabulary];
        matmul(pool, Left::rows(hidden, width), targets.len(), head, logits, vocabulary, false);
        let logits = &*logits;
        // Split as finely as the logits deserve, not as the four numbers do.
        by_token_wide(out, targets.len() * vocabulary, |start, out| {
            let tokens = start..start + out.len() / 4;
            let logits = &logits[tokens.start * vocabulary..tokens.end * vocabulary];
            score(logits, vocabulary, &targets[tokens], inverse_temperature, entropy, out);
        });
    }
    keep.then_some(all)
}

fn by_token_wide<T: Real>(out: &mut [T], work: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    use rayon::prelude::*;
    let threads = threads();
    if threads == 1 || work < 1 << 15 {
        return f(0, out);
    }
    let per_task = (out.len() / 4).div_ceil(4 * threads);
    out.par_chunks_mut(4 * per_task).enumerate().for_each(|(t, out)| f(t * per_task, out));
}

/// A token's share in a gradient of logits.
#[derive(Clone, Copy)]
struct Slope<'a, T> {
    /// Its four numbers of [`forward`].
    saved: &'a [T],
    of_log_prob: T,
    of_entropy: Option<T>,
}

kernel! {
    /// Replaces logits by `d loss / d logits`: `g ((j = target) - p_j) / temperature`, and of the entropy, where it has a slope `h`,
    /// `-h p_j (ln p_j + H) / temperature`. The target is counted from the first logit, and may lie outside.
    fn logit_gradient<T: Real>(logits: &mut [T], target: Option<usize>, it: T, slope: Slope<'_, T>) {
        let Slope { saved, of_log_prob, of_entropy } = slope;
        let normaliser = (saved[2], saved[3]);
        let g = of_log_prob * it;
        match of_entropy {
            None => for x in logits.iter_mut() {
                *x = -g * log_prob(*x, it, normaliser).exp();
            },
            Some(slope) => for x in logits.iter_mut() {
                let log_p = log_prob(*x, it, normaliser);
                let p = log_p.exp();
                // A probability of 0 moves nothing, whatever its logarithm; a NaN stays one.
                let g = if p > T::ZERO { g + slope * it * (log_p + saved[1]) } else { g };
                *x = -g * p;
            },
        }
        if let Some(x) = target.and_then(|target| logits.get_mut(target)) {
            *x += g;
        }
    }
}

/// Logits of the backward pass held at a time (8 MiB of `f32`), unless 128 of every token need more.
const LOGITS_BACK: usize = 1 << 21;

/// The gradient of the log-probabilities of [`forward`], weighted by `slopes`, and of its entropies, weighted by `of_entropy`, which is empty or has
/// as many and needs a forward pass with entropies: adds to `dhead` (`vocabulary x width`, when
/// wanted) and writes `dhidden`. `weight` is the output matrix as stored, `saved` the output of [`forward`], and `kept` what it returned.
#[allow(clippy::too_many_arguments)]
pub fn backward<T: Real>(
    pool: &Pool<T>,
    hidden: &[T],
    width: usize,
    head: Panels<'_, T>,
    weight: &[T],
    targets: &[u32],
    inverse_temperature: T,
    saved: &[T],
    mut kept: Option<Buffer<T>>,
    (slopes, of_entropy): (&[T], &[T]),
    mut dhead: Option<&mut [T]>,
    dhidden: &mut [T],
) {
    let (vocabulary, tokens) = (weight.len() / width, targets.len());
    if tokens == 0 {
        return;
    }
    // Logits of all tokens together, some columns at a time: a part of the output matrix and of its gradient is read once.
    let columns = ((LOGITS_BACK / tokens).clamp(4 * NR, 128 * NR) / NR * NR).min(vocabulary);
    let mut computed = pool.take(if kept.is_some() { 0 } else { tokens * columns });
    let mut packed_weight = pool.take(packed_len(columns, width));
    let mut packed_hidden = pool.take(packed_len(tokens, width));
    if dhead.is_some() {
        pack_rows(|i| &hidden[i * width..], tokens, width, &mut packed_hidden);
    }
    for first in (0..vocabulary).step_by(columns) {
        let n = columns.min(vocabulary - first);
        // Rows of kept logits are as far apart as the vocabulary is large.
        let (logits, stride) = match &mut kept {
            Some(kept) => (&mut kept[first..], vocabulary),
            None => {
                let logits = &mut computed[..tokens * n];
                matmul(pool, Left::rows(hidden, width), tokens, head.columns(first, n), logits, n, false);
                (logits, n)
            }
        };
        by_token(logits, stride, |start, logits| {
            for (t, logits) in (start..).zip(logits.chunks_mut(stride)) {
                let slope = Slope {
                    saved: &saved[4 * t..4 * t + 4],
                    of_log_prob: slopes[t],
                    of_entropy: of_entropy.get(t).copied(),
                };
                let target = (targets[t] as usize).checked_sub(first);
                logit_gradient(&mut logits[..n], target, inverse_temperature, slope);
            }
        });
        let weight = &weight[first * width..];
        let packed = &mut packed_weight[..packed_len(n, width)];
        pack_rows(|i| &weight[i * width..], n, width, packed);
        let right = Panels::new(packed, n, width);
        matmul(pool, Left::rows(logits, stride), tokens, right, dhidden, width, first > 0);
        if let Some(dhead) = dhead.as_deref_mut() {
            let right = Panels::new(&packed_hidden, tokens, width);
            matmul(
                pool,
                Left::transposed(logits, stride),
                n,
                right,
                &mut dhead[first * width..],
                width,
                true,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::matmul::pack_transposed;
    use super::*;

    #[test]
    fn the_columns_of_a_large_vocabulary_continue_each_others_sums() {
        let (vocabulary, width, tokens) = (9000, 8, 5);
        let numbers = |n: usize, from: usize| -> Vec<f32> {
            (from..from + n).map(|i| ((i * 7919 + 13) % 1009) as f32 / 1500.0 - 0.3).collect()
        };
        let (weight, hidden) = (numbers(vocabulary * width, 0), numbers(tokens * width, 5));
        let (slopes, targets) = (numbers(tokens, 9), [0, 4095, 4096, 8191, 8999]);
        let pool = Pool::default();
        let mut packed = vec![0.0; packed_len(width, vocabulary)];
        pack_transposed(|i| &weight[i * width..], width, vocabulary, &mut packed);
        let head = Panels::new(&packed, width, vocabulary);
        for (of_entropy, keep) in [(vec![], false), (numbers(tokens, 3), false), (numbers(tokens, 3), true)] {
            let mut saved = vec![0.0; 4 * tokens];
            let (it, wanted) = (0.9, (true, keep));
            let kept = forward(&pool, &hidden, width, head, vocabulary, &targets, it, wanted, &mut saved);
            assert_eq!(kept.is_some(), keep);
            let start = numbers(vocabulary * width, 2);
            let (mut dhead, mut dhidden) = (start.clone(), vec![f32::NAN; tokens * width]);
            let each = (&slopes[..], &of_entropy[..]);
            let to = (Some(&mut dhead[..]), &mut dhidden[..]);
            backward(&pool, &hidden, width, head, &weight, &targets, it, &saved, kept, each, to.0, to.1);

            let (mut of_head, mut of_hidden) = (start, vec![0.0; tokens * width]);
            for t in 0..tokens {
                let hidden = &hidden[t * width..][..width];
                let logit = |row: &[f32]| hidden.iter().zip(row).fold(0.0, |s, (x, w)| x.mul_add(*w, s));
                let mut d: Vec<f32> = weight.chunks_exact(width).map(logit).collect();
                let saved = &saved[4 * t..][..4];
                let slope = Slope { saved, of_log_prob: slopes[t], of_entropy: of_entropy.get(t).copied() };
                logit_gradient(&mut d, Some(targets[t] as usize), 0.9, slope);
                for (v, d) in d.iter().enumerate() {
                    for i in 0..width {
                        let (of_head, of_hidden) =
                            (&mut of_head[v * width + i], &mut of_hidden[t * width + i]);
                        *of_head = d.mul_add(hidden[i], *of_head);
                        *of_hidden = d.mul_add(weight[v * width + i], *of_hidden);
                    }
                }
            }
            assert!(dhead == of_head && dhidden == of_hidden, "{} slopes of entropies", of_entropy.len());
        }
    }
}
