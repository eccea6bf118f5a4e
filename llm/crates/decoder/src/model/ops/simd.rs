//! The one file that knows the processor: run a loop with the widest vectors there are, and the tile of the matrix product.
//!
//! Every arithmetic result here is the same on every machine, to the last bit: a fused multiply-add rounds once whether it
//! is done by AVX-512, AVX2 or a library call, and each output element is one chain of them in ascending `k`. The choice of
//! instructions is therefore only a matter of speed. (A processor without fused multiply-add is right too, but slow.)
#![allow(unsafe_code)]

use super::real::{Left, Real};

/// Rows of a tile.
pub(super) const MR: usize = 12;
/// Columns of a packed panel, and of a tile: two AVX-512 registers of `f32`.
pub const NR: usize = 32;

/// Defines a loop that is compiled once per instruction set; a call runs it with the widest vectors of this processor. What the loop calls
/// must be `#[inline(always)]`.
macro_rules! kernel {
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident $(<$T:ident: $bound:ident>)?
        ($($argument:ident: $type:ty),* $(,)?) $(-> $output:ty)? $body:block
    ) => {
        $(#[$attribute])*
        #[inline]
        #[allow(unsafe_code)]
        $visibility fn $name $(<$T: $bound>)? ($($argument: $type),*) $(-> $output)? {
            #[inline(always)]
            fn run $(<$T: $bound>)? ($($argument: $type),*) $(-> $output)? $body
            #[cfg(target_arch = "x86_64")]
            {
                use $crate::model::ops::simd;
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,fma")]
                fn avx512 $(<$T: $bound>)? ($($argument: $type),*) $(-> $output)? {
                    run $(::<$T>)? ($($argument),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2 $(<$T: $bound>)? ($($argument: $type),*) $(-> $output)? {
                    run $(::<$T>)? ($($argument),*)
                }
                if simd::has_avx512() {
                    // SAFETY: the processor has just been seen to support every feature of `avx512`.
                    return unsafe { avx512 $(::<$T>)? ($($argument),*) };
                }
                if simd::has_avx2() {
                    // SAFETY: as above, for `avx2`.
                    return unsafe { avx2 $(::<$T>)? ($($argument),*) };
                }
            }
            run $(::<$T>)? ($($argument),*)
        }
    };
}
pub(crate) use kernel;

#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("fma")
}

#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// True if a tile is computed three rows at a time.
pub(super) fn has_three_rows() -> bool {
    #[cfg(target_arch = "x86_64")]
    return !has_avx512() && has_avx2();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// `c[i][j] = sum_k a[i][k] b[k][j]`, added to what `c` holds when `accumulate`: an `M x NR` tile.
///
/// `b` is `k x NR`, row `i` of the tile starts at `c[i * stride]`; `a` is read where it lies. `next` is what
/// will be read of the right side later: a hint, which the processor may fetch meanwhile.
///
/// # Panics
/// When a slice is too short for its shape.
#[inline]
pub fn tile_f32<const M: usize>(
    a: Left<'_, f32>,
    b: &[f32],
    c: &mut [f32],
    stride: usize,
    accumulate: bool,
    next: &[f32],
) {
    assert!(a.covers(M, b.len() / NR) && c.len() >= (M - 1) * stride + NR, "tile out of bounds");
    #[cfg(target_arch = "x86_64")]
    {
        if has_avx512() {
            // SAFETY: AVX-512F is there, and the bounds were asserted above.
            return unsafe { x86::tile_avx512::<M>(a, b, c, stride, accumulate, next) };
        }
        if has_avx2() {
            // SAFETY: AVX2 and FMA are there, and the bounds were asserted above.
            return unsafe { x86::tile_avx2::<M>(a, b, c, stride, accumulate, next) };
        }
    }
    tile_portable(M, a, b, c, stride, accumulate);
}

/// [`tile_f32`] for any number, in plain Rust: the same chains of multiply-adds.
#[inline(always)]
pub(crate) fn tile_portable<T: Real>(
    m: usize,
    a: Left<'_, T>,
    b: &[T],
    c: &mut [T],
    stride: usize,
    accumulate: bool,
) {
    let b = b.as_chunks::<NR>().0;
    for i in 0..m {
        let mut sum = [T::ZERO; NR];
        let row = &mut c[i * stride..i * stride + NR];
        if accumulate {
            sum.copy_from_slice(row);
        }
        let a = a.data[i * a.row..].iter().step_by(a.step);
        for (&a, b) in a.zip(b) {
            for j in 0..NR {
                sum[j] = a.mul_add(b[j], sum[j]);
            }
        }
        row.copy_from_slice(&sum);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Left, NR};
    use std::arch::x86_64::*;

    // No tile hands a closure to a library function: that function lacks the tile's instructions, so that each call of the closure is made.

    /// Numbers of a cache line.
    const LINE: usize = 16;

    /// Asks for line `k` of `next`, for the second-level cache.
    #[inline(always)]
    fn fetch(next: &[f32], k: usize) {
        if let Some(line) = next.get(k * LINE) {
            // SAFETY: a hint reads nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(line).cast()) };
        }
    }

    /// # Safety
    /// `a` covers `M x k`, `b` has `k x NR` elements, `c` at least `(M - 1) stride + NR`.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn tile_avx512<const M: usize>(
        a: Left<'_, f32>,
        b: &[f32],
        c: &mut [f32],
        stride: usize,
        accumulate: bool,
        next: &[f32],
    ) {
        let c = c.as_mut_ptr();
        let mut sum = [[_mm512_setzero_ps(); 2]; M];
        // SAFETY: every access is within the bounds that the caller promises.
        unsafe {
            if accumulate {
                for i in 0..M {
                    sum[i][0] = _mm512_loadu_ps(c.add(i * stride));
                    sum[i][1] = _mm512_loadu_ps(c.add(i * stride + 16));
                }
            }
            // Rows are addressed from every third, which leaves their pointers in registers.
            let row = a.row;
            let at = a.data.as_ptr();
            let from = [at, at.wrapping_add(3 * row), at.wrapping_add(6 * row), at.wrapping_add(9 * row)];
            for k in 0..b.len() / NR {
                let b = b.as_ptr().add(k * NR);
                fetch(next, k);
                let b0 = _mm512_loadu_ps(b);
                let b1 = _mm512_loadu_ps(b.add(16));
                for i in 0..M {
                    let x = _mm512_set1_ps(*from[i / 3].wrapping_add(k * a.step + i % 3 * row));
                    sum[i][0] = _mm512_fmadd_ps(x, b0, sum[i][0]);
                    sum[i][1] = _mm512_fmadd_ps(x, b1, sum[i][1]);
                }
            }
            for i in 0..M {
                _mm512_storeu_ps(c.add(i * stride), sum[i][0]);
                _mm512_storeu_ps(c.add(i * stride + 16), sum[i][1]);
            }
        }
    }

    /// Sixteen registers hold three rows of 32 columns at a time.
    ///
    /// # Safety
    /// As [`tile_avx512`].
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn tile_avx2<const M: usize>(
        a: Left<'_, f32>,
        b: &[f32],
        c: &mut [f32],
        stride: usize,
        accumulate: bool,
        next: &[f32],
    ) {
        let c = c.as_mut_ptr();
        // SAFETY: every access is within the bounds that the caller promises.
        unsafe {
            let (mut row, mut line) = (0, 0);
            while row < M {
                let rows = (M - row).min(3);
                // Rows past the last repeat it, so that three rows are always computed and the true ones stored.
                let index = [row, row + usize::from(rows > 1), row + rows - 1];
                let from = [index[0] * a.row, index[1] * a.row, index[2] * a.row];
                let mut sum = [[_mm256_setzero_ps(); 4]; 3];
                if accumulate {
                    for i in 0..3 {
                        for j in 0..4 {
                            sum[i][j] = _mm256_loadu_ps(c.add(index[i] * stride + 8 * j));
                        }
                    }
                }
                for k in 0..b.len() / NR {
                    let (at, b) = (a.data.as_ptr().add(k * a.step), b.as_ptr().add(k * NR));
                    let x = [
                        _mm256_set1_ps(*at.add(from[0])),
                        _mm256_set1_ps(*at.add(from[1])),
                        _mm256_set1_ps(*at.add(from[2])),
                    ];
                    // One line at a time, among the multiply-adds of all rows: many at once keep the processor from the lines of this panel.
                    if k % 4 == 0 {
                        fetch(next, line);
                        line += 1;
                    }
                    for j in 0..4 {
                        let b = _mm256_loadu_ps(b.add(8 * j));
                        for i in 0..3 {
                            sum[i][j] = _mm256_fmadd_ps(x[i], b, sum[i][j]);
                        }
                    }
                }
                for i in 0..3 {
                    for j in 0..4 {
                        _mm256_storeu_ps(c.add(index[i] * stride + 8 * j), sum[i][j]);
                    }
                }
                row += rows;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instruction sets of this processor and plain Rust give the same bits.
    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        fn check<const M: usize>(k: usize) {
            let value = |i: usize| ((i * 7919 + 13) % 1009) as f32 / 331.0 - 1.5;
            let a: Vec<f32> = (0..k * M).map(value).collect();
            let by_rows: Vec<f32> = (0..k * M).map(|i| a[i % k * M + i / k]).collect();
            let (a, by_rows) = (Left::transposed(&a, M), Left::rows(&by_rows, k));
            let b: Vec<f32> = (0..k * NR).map(|i| value(i + 5)).collect();
            for accumulate in [false, true] {
                let start: Vec<f32> = (0..M * 40).map(|i| value(i + 77)).collect();
                let mut expected = start.clone();
                tile_portable(M, a, &b, &mut expected, 40, accumulate);
                for a in [a, by_rows] {
                    let mut found = start.clone();
                    tile_f32::<M>(a, &b, &mut found, 40, accumulate, &b);
                    assert_eq!(expected, found, "{M} rows, k = {k}");
                    let mut found = start.clone();
                    tile_portable(M, a, &b, &mut found, 40, accumulate);
                    assert_eq!(expected, found, "portable, {M} rows, k = {k}");
                }
                #[cfg(target_arch = "x86_64")]
                if has_avx2() {
                    for a in [a, by_rows] {
                        let mut found = start.clone();
                        // SAFETY: AVX2 and FMA are there; the slices have the shapes asserted by `tile_f32` above.
                        unsafe { x86::tile_avx2::<M>(a, &b, &mut found, 40, accumulate, &b) };
                        assert_eq!(expected, found, "AVX2, {M} rows, k = {k}");
                    }
                }
            }
        }
        for k in [1, 2, 17, 64] {
            check::<1>(k);
            check::<2>(k);
            check::<4>(k);
            check::<8>(k);
            check::<12>(k);
        }
    }
}
