//! A pool of work buffers: a buffer returns to its pool when dropped, so training steps after the first allocate little.
//!
//! Returning large buffers to the operating system at every step costs a page fault per 4 KiB the next time. The pool holds, lent or not,
//! at most as much as was ever lent at once: before it makes a buffer of a new size, it frees others, the smallest that make room.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::real::Real;

/// Buffers not in use, shared by clones.
#[derive(Clone, Default)]
pub struct Pool<T>(Arc<Mutex<Shelf<T>>>);

/// Counts are in elements; `lent + free_len` is at most `most_lent`.
#[derive(Default)]
struct Shelf<T> {
    /// By size.
    free: BTreeMap<usize, Vec<Vec<T>>>,
    free_len: usize,
    lent: usize,
    most_lent: usize,
}

/// `len` numbers on loan from a [`Pool`].
pub struct Buffer<T> {
    data: Vec<T>,
    len: usize,
    pool: Pool<T>,
}

impl<T> Shelf<T> {
    /// The smallest buffer of these sizes; of equals the one that was returned last, which a cache may still hold.
    fn pop(&mut self, sizes: impl RangeBounds<usize>) -> Option<Vec<T>> {
        let (&size, buffers) = self.free.range_mut(sizes).next()?;
        let found = buffers.pop();
        if buffers.is_empty() {
            self.free.remove(&size);
        }
        self.free_len -= size;
        found
    }

    /// Frees the smallest buffer of at least `size` numbers, or else the largest.
    fn free(&mut self, size: usize) {
        let largest = self.free.last_key_value().map_or(0, |(size, _)| *size);
        self.pop(size.min(largest)..);
    }
}

impl<T> Pool<T> {
    fn shelf(&self) -> MutexGuard<'_, Shelf<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives every buffer not in use back to the system.
    pub fn clear(&self) {
        let mut shelf = self.shelf();
        shelf.free.clear();
        shelf.free_len = 0;
        shelf.most_lent = shelf.lent;
    }
}

impl<T: Real> Pool<T> {
    /// A buffer of `len` numbers of any value: to be written before it is read.
    pub fn take(&self, len: usize) -> Buffer<T> {
        // Sizes in steps of an eighth to a quarter, so that ragged batches of about one size share buffers.
        let size = len.next_multiple_of((len.next_power_of_two() / 8).max(64));
        let mut shelf = self.shelf();
        // A somewhat larger one costs less than memory that the system has to clear.
        let found = shelf.pop(size..=size + size / 2);
        shelf.lent += found.as_ref().map_or(size, Vec::len);
        shelf.most_lent = shelf.most_lent.max(shelf.lent);
        while let excess @ 1.. = (shelf.lent + shelf.free_len).saturating_sub(shelf.most_lent) {
            shelf.free(excess);
        }
        drop(shelf);
        Buffer { data: found.unwrap_or_else(|| vec![T::ZERO; size]), len, pool: self.clone() }
    }

    /// A buffer of `len` zeros.
    pub fn zeros(&self, len: usize) -> Buffer<T> {
        let mut buffer = self.take(len);
        buffer.fill(T::ZERO);
        buffer
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        let data = std::mem::take(&mut self.data);
        let mut shelf = self.pool.shelf();
        shelf.lent -= data.len();
        shelf.free_len += data.len();
        shelf.free.entry(data.len()).or_default().push(data);
    }
}

impl<T> Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.data[..self.len]
    }
}

impl<T> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.data[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of other sizes in every step, of which the first has the most tokens.
    #[test]
    fn a_pool_holds_at_most_what_was_lent_at_once() {
        let pool = Pool::<f32>::default();
        let held = || {
            let shelf = pool.shelf();
            (shelf.lent, shelf.free.values().flatten().map(Vec::len).sum::<usize>())
        };
        let most = 3 * 64 * 1024;
        for tokens in [1024, 700, 1024, 300, 900, 1000] {
            let buffers: Vec<_> = (1..=3).map(|_| pool.take(64 * tokens)).collect();
            assert!(held().0 >= 3 * 64 * tokens && held().0 + held().1 <= most);
            drop(buffers);
            assert!(held().0 == 0 && held().1 <= most);
        }
        // What has a free buffer's size takes it, and frees none.
        let before = held().1;
        drop(pool.take(64 * 1000));
        assert_eq!(held().1, before);
    }
}
