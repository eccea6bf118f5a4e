//! The two number types of the decoder: `f32` to run, `f64` to be checked by finite differences.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

use super::simd::{self, Kernel};

/// A floating-point number the decoder can compute in.
pub trait Real:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + Sum
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Below every finite number.
    const NEG_INFINITY: Self;
    /// `self * a + b`, rounded once.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// `e^self`; for `f32` a polynomial that vectorises, within 2 units in the last place, 0 below -87.3; NaN stays NaN.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// The nearest number to `x`.
    fn from_f64(x: f64) -> Self;
    /// This number in double precision.
    fn to_f64(self) -> f64;
    /// An `M`-row tile of the matrix product: see [`super::matmul`].
    fn tile<const M: usize>(a: &[Self], b: &[Self], c: &mut [Self], stride: usize, accumulate: bool);
}

impl Real for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const NEG_INFINITY: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn mul_add(self, a: f32, b: f32) -> f32 {
        f32::mul_add(self, a, b)
    }
    #[inline(always)]
    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }
    #[inline(always)]
    fn exp(self) -> f32 {
        // e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln 2 / 2; ln 2 in two parts; Taylor to r^7 has a rest below 2^-27.
        const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer, left in the low bits
        const LOW: f32 = -87.336_54;
        const HIGH: f32 = 88.722_83;
        // Comparisons rather than min and max: those would turn NaN into a number.
        let x = if self < LOW { LOW } else { self };
        let over = x > HIGH;
        let x = if over { HIGH } else { x };
        let shifted = f32::mul_add(x, std::f32::consts::LOG2_E, MAGIC);
        let n = shifted - MAGIC;
        let r = f32::mul_add(n, -0.693_145_75, x);
        let r = f32::mul_add(n, -1.428_606_8e-6, r);
        let mut p = 1.0 / 5040.0;
        p = f32::mul_add(p, r, 1.0 / 720.0);
        p = f32::mul_add(p, r, 1.0 / 120.0);
        p = f32::mul_add(p, r, 1.0 / 24.0);
        p = f32::mul_add(p, r, 1.0 / 6.0);
        p = f32::mul_add(p, r, 0.5);
        p = f32::mul_add(p, r, 1.0);
        p = f32::mul_add(p, r, 1.0);
        // 2^n in two factors, since n = 128 has no exponent of its own.
        let n = shifted.to_bits().wrapping_sub(MAGIC.to_bits()) as i32;
        let half = n >> 1;
        let scale = |e: i32| f32::from_bits(((e + 127) as u32) << 23);
        let y = p * scale(half) * scale(n - half);
        let y = if over { f32::INFINITY } else { y };
        if self < LOW { 0.0 } else { y }
    }
    #[inline(always)]
    fn ln(self) -> f32 {
        f32::ln(self)
    }
    #[inline(always)]
    fn from_f64(x: f64) -> f32 {
        x as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline]
    fn tile<const M: usize>(a: &[f32], b: &[f32], c: &mut [f32], stride: usize, accumulate: bool) {
        simd::tile_f32::<M>(a, b, c, stride, accumulate);
    }
}

impl Real for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const NEG_INFINITY: f64 = f64::NEG_INFINITY;
    #[inline(always)]
    fn mul_add(self, a: f64, b: f64) -> f64 {
        f64::mul_add(self, a, b)
    }
    #[inline(always)]
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }
    #[inline(always)]
    fn exp(self) -> f64 {
        f64::exp(self)
    }
    #[inline(always)]
    fn ln(self) -> f64 {
        f64::ln(self)
    }
    #[inline(always)]
    fn from_f64(x: f64) -> f64 {
        x
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline]
    fn tile<const M: usize>(a: &[f64], b: &[f64], c: &mut [f64], stride: usize, accumulate: bool) {
        struct Tile<'a, const M: usize>(&'a [f64], &'a [f64], &'a mut [f64], usize, bool);
        impl<const M: usize> Kernel for Tile<'_, M> {
            type Output = ();
            #[inline(always)]
            fn run(self) {
                simd::tile_portable::<f64, M>(self.0, self.1, self.2, self.3, self.4);
            }
        }
        simd::run(Tile::<M>(a, b, c, stride, accumulate));
    }
}

/// Partial sums kept side by side; a sum over `n` terms depends on `n` alone, not on the vectors of the processor.
const LANES: usize = 16;

/// `sum_i f(i)` over `0..n`: term `i` goes to partial sum `i mod 16`, and the sixteen are added as a tree.
#[inline(always)]
pub(crate) fn sum_by<T: Real>(n: usize, f: impl Fn(usize) -> T) -> T {
    let mut lanes = [T::ZERO; LANES];
    let whole = n - n % LANES;
    let mut i = 0;
    while i < whole {
        for l in 0..LANES {
            lanes[l] += f(i + l);
        }
        i += LANES;
    }
    for l in 0..n - whole {
        lanes[l] += f(whole + l);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            lanes[l] += lanes[l + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// `sum_i a[i] b[i]`, with fused multiply-adds, in the order of [`sum_by`].
#[inline(always)]
pub(crate) fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    let n = a.len();
    let b = &b[..n];
    let mut lanes = [T::ZERO; LANES];
    let whole = n - n % LANES;
    for (a, b) in a[..whole].chunks_exact(LANES).zip(b[..whole].chunks_exact(LANES)) {
        for l in 0..LANES {
            lanes[l] = a[l].mul_add(b[l], lanes[l]);
        }
    }
    for l in 0..n - whole {
        lanes[l] = a[whole + l].mul_add(b[whole + l], lanes[l]);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            lanes[l] += lanes[l + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// The larger of two numbers; NaN when either is.
#[inline(always)]
#[allow(clippy::eq_op)] // x != x is NaN, in a form that vectorises
fn larger<T: Real>(m: T, x: T) -> T {
    if x > m || x != x { x } else { m }
}

/// The largest of `x`; NaN when one is NaN, so that a broken row is seen rather than passed over.
#[inline(always)]
pub(crate) fn max_of<T: Real>(x: &[T]) -> T {
    let mut lanes = [T::NEG_INFINITY; LANES];
    let whole = x.len() - x.len() % LANES;
    for x in x[..whole].chunks_exact(LANES) {
        for l in 0..LANES {
            lanes[l] = larger(lanes[l], x[l]);
        }
    }
    for (l, &x) in x[whole..].iter().enumerate() {
        lanes[l] = larger(lanes[l], x);
    }
    lanes.into_iter().fold(T::NEG_INFINITY, larger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        let mut worst: f64 = 0.0;
        for i in -870_000..=887_000 {
            let x = i as f32 / 10_000.0;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(Real::exp(x)) - exact).abs() / exact);
        }
        assert!(worst < 2.0 * f64::from(f32::EPSILON), "{worst:e}");
        assert_eq!(Real::exp(0.0f32), 1.0);
        assert_eq!(Real::exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(Real::exp(1e4f32), f32::INFINITY);
        assert!(Real::exp(f32::NAN).is_nan());
    }

    #[test]
    fn a_largest_value_does_not_hide_nan() {
        for at in [0, 3, 16, 20] {
            let mut x = [1.0f32; 21];
            x[at] = f32::NAN;
            assert!(max_of(&x).is_nan(), "at {at}");
        }
        assert_eq!(max_of(&[1.0f64, 3.0, 2.0]), 3.0);
    }
}
