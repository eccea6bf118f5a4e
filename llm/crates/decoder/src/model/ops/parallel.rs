//! Work split among threads if it is long enough to be worth waking one.
//!
//! A split changes no bit: one thread computes every number whole, in the order of a single thread.

use std::cell::Cell;

use rayon::prelude::*;

use super::real::Real;

/// Elements below which a loop stays on its thread: some 20 microseconds, a few times what another thread takes to wake up.
const SERIAL: usize = 1 << 16;

thread_local! {
    /// True while this thread computes a part of work that is already split.
    static IN_PART: Cell<bool> = const { Cell::new(false) };
}

/// Threads that a loop may be split among.
pub(crate) fn threads() -> usize {
    if IN_PART.get() { 1 } else { rayon::current_num_threads() }
}

/// Runs `f` on a thread of the pool, which is not put to sleep while others do its work.
pub(crate) fn in_pool<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    if threads() == 1 || rayon::current_thread_index().is_some() { f() } else { rayon::scope(|_| f()) }
}

/// `f` of every item, by as many threads as there are.
pub(crate) fn each<I: Send>(items: Vec<I>, f: impl Fn(I) + Sync + Send) {
    if threads() == 1 { items.into_iter().for_each(f) } else { items.into_par_iter().for_each(f) }
}

/// `f` of every item, in their order, each part of them by one thread where they are `long` enough together.
pub(crate) fn map<I: Sync, R: Send>(items: &[I], long: bool, f: impl Fn(&I) -> R + Sync + Send) -> Vec<R> {
    let threads = threads();
    if threads == 1 || !long {
        return items.iter().map(f).collect();
    }
    in_pool(|| items.par_iter().with_min_len(items.len().div_ceil(threads)).map(f).collect())
}

/// `f` of every item, each on a thread of its own, in which nothing is split further.
pub(crate) fn parts<I: Send>(items: Vec<I>, f: impl Fn(I) + Sync + Send) {
    /// Ends the part, even after a panic.
    struct End(bool);
    impl Drop for End {
        fn drop(&mut self) {
            IN_PART.set(self.0);
        }
    }
    each(items, |item| {
        let _end = End(IN_PART.replace(true));
        f(item);
    });
}

/// `f(first token, rows of out)` over blocks of tokens; `width` numbers of `out` per token.
pub(crate) fn by_token<T: Real>(out: &mut [T], width: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let tokens = out.len() / width.max(1);
    let threads = threads();
    if threads == 1 || out.len() < SERIAL {
        return f(0, out);
    }
    let per_task = tokens.div_ceil(4 * threads);
    out.par_chunks_mut(per_task * width).enumerate().for_each(|(t, out)| f(t * per_task, out));
}

/// [`by_token`] with a second output of `other_width` numbers per token.
pub(crate) fn by_token2<T: Real>(
    out: &mut [T],
    width: usize,
    other: &mut [T],
    other_width: usize,
    f: impl Fn(usize, &mut [T], &mut [T]) + Sync,
) {
    let tokens = out.len() / width.max(1);
    let threads = threads();
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
    let threads = threads();
    if threads == 1 || out.len() * tokens < SERIAL {
        return f(0, out);
    }
    let per_task = out.len().div_ceil(threads).next_multiple_of(32);
    out.par_chunks_mut(per_task).enumerate().for_each(|(t, out)| f(t * per_task, out));
}
