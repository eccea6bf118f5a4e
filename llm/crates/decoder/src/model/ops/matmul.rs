//! Matrix products whose every element is one chain of fused multiply-adds in ascending `k`.
//!
//! That is the whole of the exactness argument: an element depends on its row of the left side and its column of the right
//! side, and on nothing else: not on how many rows there are, how they are cut into tiles, or which thread takes which.
//! A row computed alone (a decode step) and in a batch of thousands (training) has the same bits, and a weight gradient
//! accumulated over micro-batches has the bits of the whole batch, because accumulating continues the same chain. Ready-made
//! libraries choose their blocking and their order of summation by shape, so they cannot promise this.
//!
//! Cost of the promise: none measurable. Tiles of 12 x 32 keep 24 independent chains in the 32 registers of AVX-512 (AVX2 has 16, and takes
//! three rows at a time), the right side is packed into panels of 32 columns, the left side is read where it lies or, if
//! its rows are far apart, packed a block at a time, blocks fit the caches of the processor (`Blocks`), and threads split
//! the rows of the result (or its columns, when there are few rows).

use super::blocks::Blocks;
use super::buffer::{Buffer, Pool};
use super::parallel::threads;
pub use super::real::Left;
use super::real::Real;
use super::simd::MR;
pub use super::simd::NR;
use rayon::prelude::*;

/// Multiply-adds below which a product is not worth a second thread: some 15 microseconds, a few times what one takes to wake up.
const SERIAL: usize = 1 << 21;
/// Numbers below which packing is not worth a second thread.
const SERIAL_PACKING: usize = 1 << 17;
/// Columns of a product from which on it is worth packing the left side, where it does not lie in one piece.
const PACKED_LEFT: usize = 4 * NR;
/// Numbers of a line of the cache.
const LINE: usize = 16;
/// Steps of a panel that are packed before the next: what is written stays in the first-level cache until its lines are whole.
const PACKED: usize = 64;

/// The right side of a product, `k x n`, packed: panel `p` holds columns `32 p ..`, `k` rows of 32 (zeros past column `n`).
#[derive(Clone, Copy)]
pub struct Panels<'a, T> {
    data: &'a [T],
    /// Rows that take part, of `height` that are stored.
    k: usize,
    height: usize,
    n: usize,
}

/// Elements of a packed `k x n` right side.
pub const fn packed_len(k: usize, n: usize) -> usize {
    n.div_ceil(NR) * NR * k
}

/// Calls `pack(first column, columns, panel)` on every panel of a `k x n` matrix.
fn each_panel<T: Real>(k: usize, n: usize, out: &mut [T], pack: impl Fn(usize, usize, &mut [T]) + Sync) {
    debug_assert_eq!(out.len(), packed_len(k, n));
    let pack = |(p, panel): (usize, &mut [T])| pack(p * NR, NR.min(n - p * NR), panel);
    if k == 0 {
        return;
    }
    if k * n < SERIAL_PACKING || threads() == 1 {
        out.chunks_exact_mut(NR * k).enumerate().for_each(pack);
    } else {
        out.par_chunks_exact_mut(NR * k).enumerate().for_each(pack);
    }
}

/// Packs a `k x n` matrix whose row `i` is the beginning of `row(i)`.
pub fn pack_rows<'s, T: Real>(row: impl Fn(usize) -> &'s [T] + Sync, k: usize, n: usize, out: &mut [T]) {
    each_panel(k, n, out, |from, width, panel| {
        for (i, out) in panel.as_chunks_mut::<NR>().0.iter_mut().enumerate() {
            let row = &row(i)[from..from + width];
            match row.first_chunk::<NR>() {
                Some(whole) => *out = *whole,
                None => {
                    out[..width].copy_from_slice(row);
                    out[width..].fill(T::ZERO);
                }
            }
        }
    });
}

/// Packs the transpose of an `n x k` matrix whose row `i` is the beginning of `row(i)` (a Hugging Face weight, used as `x W^T`).
pub fn pack_transposed<'s, T: Real>(
    row: impl Fn(usize) -> &'s [T] + Sync,
    k: usize,
    n: usize,
    out: &mut [T],
) {
    each_panel(k, n, out, |from, width, panel| {
        for (block, panel) in panel.chunks_mut(PACKED * NR).enumerate() {
            let steps = block * PACKED..block * PACKED + panel.len() / NR;
            for j in 0..width {
                for (out, &x) in panel[j..].iter_mut().step_by(NR).zip(&row(from + j)[steps.clone()]) {
                    *out = x;
                }
            }
            for j in width..NR {
                panel[j..].iter_mut().step_by(NR).for_each(|out| *out = T::ZERO);
            }
        }
    });
}

impl<'a, T: Real> Panels<'a, T> {
    /// `data` as a packed `k x n` matrix.
    ///
    /// # Panics
    /// When its length is not [`packed_len`].
    pub fn new(data: &'a [T], k: usize, n: usize) -> Self {
        assert_eq!(data.len(), packed_len(k, n), "packed length of {k} x {n}");
        Self { data, k, height: k, n }
    }

    /// The first `k` rows alone.
    pub(crate) fn first_rows(self, k: usize) -> Self {
        assert!(k <= self.height, "{k} of {} rows", self.height);
        Self { k, ..self }
    }

    /// The first `n` columns alone.
    pub(crate) fn first_columns(self, n: usize) -> Self {
        assert!(n <= self.n, "{n} of {} columns", self.n);
        Self { data: &self.data[..n.div_ceil(NR) * NR * self.height], n, ..self }
    }

    /// `n` columns from `first` on, which begins a panel.
    pub(crate) fn columns(self, first: usize, n: usize) -> Self {
        assert!(
            first.is_multiple_of(NR) && first + n <= self.n,
            "columns {first} to {} of {}",
            first + n,
            self.n
        );
        self.slice(first / NR, (first + n).div_ceil(NR)).first_columns(n)
    }

    /// Panels `from..to` alone.
    fn slice(self, from: usize, to: usize) -> Self {
        let panel = NR * self.height;
        Self { data: &self.data[from * panel..to * panel], n: (to * NR).min(self.n) - from * NR, ..self }
    }
}

/// `out[i][j] = sum_k left[i][k] right[k][j]` for `m` rows, added to `out` when `accumulate`; rows of `out` are `stride` apart.
///
/// # Panics
/// When a slice is too short.
pub fn matmul<T: Real>(
    pool: &Pool<T>,
    left: Left<'_, T>,
    m: usize,
    right: Panels<'_, T>,
    out: &mut [T],
    stride: usize,
    accumulate: bool,
) {
    let (k, n) = (right.k, right.n);
    if m == 0 || n == 0 {
        return;
    }
    let threads = threads();
    if threads == 1 || m * n * k.max(1) < SERIAL {
        return in_blocks(Blocks::here(), Some(pool), left, m, right, out, stride, accumulate);
    }
    if m >= 2 * MR * threads || n <= NR {
        // A few tasks per thread: they end together even when one thread is held up.
        let rows = (m.div_ceil(4 * threads)).next_multiple_of(MR);
        out[..(m - 1) * stride + n].par_chunks_mut(rows * stride).enumerate().for_each(|(t, out)| {
            let start = t * rows;
            let left = left.after(start, 0);
            in_blocks(Blocks::here(), Some(pool), left, rows.min(m - start), right, out, stride, accumulate);
        });
        return;
    }
    // Few rows: split the columns, each task into a block of its own, since columns of `out` interleave.
    let panels = n.div_ceil(NR);
    let per_task = panels.div_ceil(4 * threads).max(1);
    let width = per_task * NR;
    let mut blocks: Vec<Buffer<T>> = (0..panels.div_ceil(per_task)).map(|_| pool.take(m * width)).collect();
    if accumulate {
        for (t, block) in blocks.iter_mut().enumerate() {
            let (from, to) = (t * width, n.min((t + 1) * width));
            for (block, out) in block.chunks_exact_mut(width).zip(out.chunks(stride)) {
                block[..to - from].copy_from_slice(&out[from..to]);
            }
        }
    }
    blocks.par_iter_mut().enumerate().for_each(|(t, block)| {
        let part = right.slice(t * per_task, panels.min((t + 1) * per_task));
        in_blocks(Blocks::here(), Some(pool), left, m, part, block, width, accumulate);
    });
    for (t, block) in blocks.iter().enumerate() {
        let (from, to) = (t * width, n.min((t + 1) * width));
        for (block, out) in block.chunks_exact(width).zip(out.chunks_mut(stride)) {
            out[from..to].copy_from_slice(&block[..to - from]);
        }
    }
}

/// [`matmul`] on the calling thread, for few columns.
pub(crate) fn serial<T: Real>(
    left: Left<'_, T>,
    m: usize,
    right: Panels<'_, T>,
    out: &mut [T],
    stride: usize,
    accumulate: bool,
) {
    in_blocks(Blocks::here(), None, left, m, right, out, stride, accumulate);
}

/// The product block by block; with a pool, the left side is packed where that pays.
#[allow(clippy::too_many_arguments)]
fn in_blocks<T: Real>(
    blocks: Blocks,
    pool: Option<&Pool<T>>,
    left: Left<'_, T>,
    m: usize,
    right: Panels<'_, T>,
    out: &mut [T],
    stride: usize,
    accumulate: bool,
) {
    let (k, n) = (right.k, right.n);
    if k == 0 {
        if !accumulate {
            out.chunks_mut(stride).take(m).for_each(|row| row[..n].fill(T::ZERO));
        }
        return;
    }
    let blocks = blocks.even(m, k);
    let lies_apart = left.step != 1 || left.row > blocks.steps;
    let pool = pool.filter(|_| n >= PACKED_LEFT && lies_apart);
    let mut space = pool.map(|pool| pool.take(blocks.rows * (blocks.steps + LINE)));
    for i0 in (0..m).step_by(blocks.rows) {
        let rows = blocks.rows.min(m - i0);
        for k0 in (0..k).step_by(blocks.steps) {
            let kc = blocks.steps.min(k - k0);
            let add = accumulate || k0 > 0;
            let block = LeftBlock::new(left.after(i0, k0), rows, kc, space.as_deref_mut());
            for (p, panel) in right.data.chunks_exact(NR * right.height).enumerate() {
                let panel = &panel[k0 * NR..(k0 + kc) * NR];
                // Each tile has its share of the next panel fetched: without, the first tile of a panel waits for memory, and memory for the others.
                let after = right.data.get((p + 1) * NR * right.height + k0 * NR..).unwrap_or_default();
                let (column, width) = (p * NR, NR.min(n - p * NR));
                for_tiles(rows, |i, size| {
                    let a = block.at_row(i);
                    let start = (i0 + i) * stride + column;
                    let (from, to) = (i * kc / rows * NR, (i + size) * kc / rows * NR);
                    let next = &after[from.min(after.len())..to.min(after.len())];
                    if width == NR {
                        tile(size, a, panel, &mut out[start..], stride, add, next);
                    } else {
                        edge(size, width, a, panel, &mut out[start..], stride, add);
                    }
                });
            }
        }
    }
}

/// A block of the left side as tiles read it.
struct LeftBlock<'a, T> {
    left: Left<'a, T>,
    /// Numbers from a tile of a packed transpose to the next; none where rows lie as in `left`.
    tile: Option<usize>,
}

impl<'a, T: Real> LeftBlock<'a, T> {
    /// The block where it lies, or packed into `space`: rows one after the other, with a line between that keeps them
    /// out of one another's place in the cache; those of a transpose by tiles, step by step.
    fn new(left: Left<'a, T>, rows: usize, steps: usize, space: Option<&'a mut [T]>) -> Self {
        let Some(space) = space else { return Self { left, tile: None } };
        if left.step == 1 {
            let stride = steps + LINE;
            for (i, row) in space.chunks_exact_mut(stride).take(rows).enumerate() {
                row[..steps].copy_from_slice(&left.data[i * left.row..][..steps]);
            }
            return Self { left: Left::rows(space, stride), tile: None };
        }
        pack_tiles(left, rows, steps, space);
        Self { left: Left::transposed(space, MR), tile: Some(MR * steps) }
    }

    /// The block from row `i` on.
    fn at_row(&self, i: usize) -> Left<'a, T> {
        match self.tile {
            Some(tile) => self.left.after(i / MR * tile + i % MR, 0),
            None => self.left.after(i, 0),
        }
    }
}

/// Packs `rows` rows of a transpose by tiles of [`MR`] rows, of which the last may have fewer.
fn pack_tiles<T: Real>(left: Left<'_, T>, rows: usize, steps: usize, out: &mut [T]) {
    let out = out.as_chunks_mut::<MR>().0;
    for k in 0..steps {
        let (tiles, rest) = left.data[k * left.step..][..rows].as_chunks::<MR>();
        for (t, tile) in tiles.iter().enumerate() {
            out[t * steps + k] = *tile;
        }
        if !rest.is_empty() {
            out[tiles.len() * steps + k][..rest.len()].copy_from_slice(rest);
        }
    }
}

/// `m` rows as tiles of 12, 8, 4, 2 and 1: `f(first row, rows)`.
#[inline]
fn for_tiles(m: usize, mut f: impl FnMut(usize, usize)) {
    let mut i = 0;
    while i < m {
        let size = match m - i {
            MR.. => MR,
            8.. => 8,
            4.. => 4,
            2.. => 2,
            _ => 1,
        };
        f(i, size);
        i += size;
    }
}

#[inline]
fn tile<T: Real>(size: usize, a: Left<'_, T>, b: &[T], c: &mut [T], stride: usize, add: bool, next: &[T]) {
    match size {
        12 => T::tile::<12>(a, b, c, stride, add, next),
        8 => T::tile::<8>(a, b, c, stride, add, next),
        4 => T::tile::<4>(a, b, c, stride, add, next),
        2 => T::tile::<2>(a, b, c, stride, add, next),
        _ => T::tile::<1>(a, b, c, stride, add, next),
    }
}

/// The last panel, when it has fewer than 32 columns: through a full tile of its own.
fn edge<T: Real>(size: usize, width: usize, a: Left<'_, T>, b: &[T], c: &mut [T], stride: usize, add: bool) {
    let mut whole = [T::ZERO; MR * NR];
    if add {
        for i in 0..size {
            whole[i * NR..i * NR + width].copy_from_slice(&c[i * stride..i * stride + width]);
        }
    }
    tile(size, a, b, &mut whole, NR, add, &[]);
    for i in 0..size {
        c[i * stride..i * stride + width].copy_from_slice(&whole[i * NR..i * NR + width]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(i: usize) -> f32 {
        ((i * 7919 + 13) % 1009) as f32 / 331.0 - 1.5
    }

    /// The definition, as one chain per element.
    fn chain(a: &[f32], b: &[f32], m: usize, n: usize, k: usize, c: &mut [f32]) {
        for i in 0..m {
            for j in 0..n {
                c[i * n + j] = (0..k).fold(c[i * n + j], |s, l| a[i * k + l].mul_add(b[l * n + j], s));
            }
        }
    }

    #[test]
    fn every_shape_and_thread_count_gives_the_chain_bit_for_bit() {
        let pool = Pool::default();
        for (m, n, k) in [
            (1, 1, 1),
            (3, 33, 7),
            (13, 64, 300),
            (29, 140, 257),
            (29, 100, 257),
            (300, 70, 40),
            (5, 1030, 400),
            (64, 30, 520),
        ] {
            let a: Vec<f32> = (0..m * k).map(value).collect();
            let b: Vec<f32> = (0..k * n).map(|i| value(i + 3)).collect();
            let at: Vec<f32> = (0..k * m).map(|i| a[(i % m) * k + i / m]).collect();
            let bt: Vec<f32> = (0..n * k).map(|i| b[(i % k) * n + i / k]).collect();
            let mut packed = vec![f32::NAN; packed_len(k, n)];
            pack_rows(|i| &b[i * n..], k, n, &mut packed);
            let mut packed_t = vec![f32::NAN; packed_len(k, n)];
            pack_transposed(|i| &bt[i * k..], k, n, &mut packed_t);
            assert_eq!(packed, packed_t);
            for accumulate in [false, true] {
                let start: Vec<f32> =
                    (0..m * n).map(|i| if accumulate { value(i + 9) } else { 0.0 }).collect();
                let mut expected = start.clone();
                chain(&a, &b, m, n, k, &mut expected);
                for threads in [1, 3] {
                    let threads = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                    for left in [Left::rows(&a, k), Left::transposed(&at, m)] {
                        let mut found = start.clone();
                        let right = Panels::new(&packed, k, n);
                        threads.install(|| matmul(&pool, left, m, right, &mut found, n, accumulate));
                        assert!(expected == found, "{m} x {n} x {k}");
                        let mut found = start.clone();
                        let small = Blocks { rows: 24, steps: 7 };
                        in_blocks(small, Some(&pool), left, m, right, &mut found, n, accumulate);
                        assert!(expected == found, "{m} x {n} x {k} in small blocks");
                    }
                }
            }
        }
    }
}
