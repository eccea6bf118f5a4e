//! Loops over tokens and over columns, split among threads only when they are long.

use rayon::prelude::*;

use super::real::Real;

/// Elements below which a loop stays on its thread.
const SERIAL: usize = 1 << 15;

/// `f(first token, rows of out)` over blocks of tokens; `width` numbers of `out` per token.
pub(crate) fn by_token<T: Real>(out: &mut [T], width: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let tokens = out.len() / width.max(1);
    let threads = rayon::current_num_threads();
    if threads == 1 || out.len() < SERIAL {
        return f(0, out);
    }
    let per_task = tokens.div_ceil(4 * threads);
    out.par_chunks_mut(per_task * width).enumerate().for_each(|(t, out)| f(t * per_task, out));
}

/// As [`by_token`], with a second output of `other_width` numbers per token.
pub(crate) fn by_token2<T: Real>(
    out: &mut [T],
    width: usize,
    other: &mut [T],
    other_width: usize,
    f: impl Fn(usize, &mut [T], &mut [T]) + Sync,
) {
    let tokens = out.len() / width.max(1);
    let threads = rayon::current_num_threads();
    if threads == 1 || out.len() < SERIAL {
        return f(0, out, other);
    }
    let per_task = tokens.div_ceil(4 * threads);
    out.par_chunks_mut(per_task * width)
        .zip(other.par_chunks_mut(per_task * other_width))
        .enumerate()
        .for_each(|(t, (out, other))| f(t * per_task, out, other));
}

/// `f(first column, columns of out)` over blocks of columns: sums over tokens, in token order whatever the threads.
pub(crate) fn by_column<T: Real>(out: &mut [T], tokens: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let threads = rayon::current_num_threads();
    if threads == 1 || out.len() * tokens < SERIAL {
        return f(0, out);
    }
    let per_task = out.len().div_ceil(threads).next_multiple_of(32);
    out.par_chunks_mut(per_task).enumerate().for_each(|(t, out)| f(t * per_task, out));
}
