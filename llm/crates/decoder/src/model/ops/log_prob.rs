//! The log-probability of chosen tokens, and the entropy, without ever holding the logits of more than a few tokens.
//!
//! With `z = logits / temperature`: `log p_t = (z_t - max z) - ln sum_j e^(z_j - max z)`. The sampler normalises a row of
//! logits with the same function, so its log-probabilities are those of training to the last bit.

use super::buffer::Pool;
use super::matmul::{Left, Panels, matmul, pack_rows, packed_len};
use super::parallel::{by_token, threads};
use super::real::Real;
use super::simd::kernel;
use super::sums::{max_of, sum_by};

/// Most logits held at a time (32 MiB of `f32`), unless 48 tokens alone need more.
const LOGITS: usize = 1 << 23;

/// Tokens whose logits are computed together.
pub fn chunk(vocabulary: usize) -> usize {
    (LOGITS / vocabulary).clamp(48, 1536) / 48 * 48
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
/// normaliser. `hidden` is the normed last layer, `head` the packed output matrix (`width x vocabulary`).
#[allow(clippy::too_many_arguments)]
pub fn forward<T: Real>(
    pool: &Pool<T>,
    hidden: &[T],
    width: usize,
    head: Panels<'_, T>,
    vocabulary: usize,
    targets: &[u32],
    inverse_temperature: T,
    entropy: bool,
    out: &mut [T],
) {
    let size = chunk(vocabulary).min(targets.len().max(1));
    let mut logits = pool.take(size * vocabulary);
    for ((targets, hidden), out) in
        targets.chunks(size).zip(hidden.chunks(size * width)).zip(out.chunks_mut(4 * size))
    {
        let logits = &mut logits[..targets.len() * vocabulary];
        matmul(pool, Left::rows(hidden, width), targets.len(), head, logits, vocabulary, false);
        let logits = &*logits;
        // Split as finely as the logits deserve, not as the four numbers do.
        by_token_wide(out, targets.len() * vocabulary, |start, out| {
            let tokens = start..start + out.len() / 4;
            let logits = &logits[tokens.start * vocabulary..tokens.end * vocabulary];
            score(logits, vocabulary, &targets[tokens], inverse_temperature, entropy, out);
        });
    }
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

kernel! {
    /// Replaces logits by `d loss / d logits`: `g ((j = target) - p_j) / temperature`, and of the entropy, where it has slopes `h`,
    /// `-h p_j (ln p_j + H) / temperature`.
    fn logit_gradient<T: Real>(
        logits: &mut [T],
        vocabulary: usize,
        targets: &[u32],
        it: T,
        saved: &[T],
        slopes: &[T],
        of_entropy: &[T],
    ) {
        let rows = logits.chunks_exact_mut(vocabulary).zip(targets);
        for (t, (((logits, &target), saved), &slope)) in rows.zip(saved.chunks_exact(4)).zip(slopes).enumerate() {
            let normaliser = (saved[2], saved[3]);
            let g = slope * it;
            match of_entropy.get(t) {
                None => for x in logits.iter_mut() {
                    *x = -g * log_prob(*x, it, normaliser).exp();
                },
                Some(&slope) => for x in logits.iter_mut() {
                    let log_p = log_prob(*x, it, normaliser);
                    let p = log_p.exp();
                    // A probability of 0 moves nothing, whatever its logarithm; a NaN stays one.
                    let g = if p > T::ZERO { g + slope * it * (log_p + saved[1]) } else { g };
                    *x = -g * p;
                },
            }
            logits[target as usize] += g;
        }
    }
}

/// The gradient of the log-probabilities of [`forward`], weighted by `slopes`, and of its entropies, weighted by `of_entropy`, which is empty or has
/// as many and needs a forward pass with entropies: adds to `dhead` (`vocabulary x width`, when
/// wanted) and writes `dhidden`. `weight` is the output matrix as stored, `saved` the output of [`forward`].
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
    (slopes, of_entropy): (&[T], &[T]),
    mut dhead: Option<&mut [T]>,
    dhidden: &mut [T],
) {
    let vocabulary = weight.len() / width;
    let size = chunk(vocabulary).min(targets.len().max(1));
    let mut logits = pool.take(size * vocabulary);
    let mut packed_weight = pool.take(packed_len(vocabulary, width));
    pack_rows(|i| &weight[i * width..], vocabulary, width, &mut packed_weight);
    let packed_weight = Panels::new(&packed_weight, vocabulary, width);
    let mut packed_hidden = pool.take(packed_len(size, width));
    for (c, targets) in targets.chunks(size).enumerate() {
        let (n, from) = (targets.len(), c * size);
        let hidden = &hidden[from * width..(from + n) * width];
        let logits = &mut logits[..n * vocabulary];
        matmul(pool, Left::rows(hidden, width), n, head, logits, vocabulary, false);
        by_token(logits, vocabulary, |start, logits| {
            let tokens = start..start + logits.len() / vocabulary;
            let saved = &saved[4 * (from + tokens.start)..4 * (from + tokens.end)];
            let part = from + tokens.start..from + tokens.end;
            let of_entropy = if of_entropy.is_empty() { &[] } else { &of_entropy[part.clone()] };
            let (targets, slopes) = (&targets[tokens], &slopes[part]);
            logit_gradient(logits, vocabulary, targets, inverse_temperature, saved, slopes, of_entropy);
        });
        let dhidden = &mut dhidden[from * width..(from + n) * width];
        matmul(pool, Left::rows(logits, vocabulary), n, packed_weight, dhidden, width, false);
        if let Some(dhead) = dhead.as_deref_mut() {
            let packed = &mut packed_hidden[..packed_len(n, width)];
            pack_rows(|i| &hidden[i * width..], n, width, packed);
            let right = Panels::new(packed, n, width);
            matmul(pool, Left::transposed(logits, vocabulary), vocabulary, right, dhead, width, true);
        }
    }
}
