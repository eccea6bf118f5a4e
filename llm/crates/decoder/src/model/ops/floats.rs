//! The two number types of the decoder: `f32` to run, `f64` to be checked by finite differences.

use super::real::{Left, Real};
use super::simd::{self, kernel};

/// The methods that are those of the standard library.
macro_rules! standard {
    ($number:ty) => {
        const ZERO: Self = 0.0;
        const ONE: Self = 1.0;
        const NEG_INFINITY: Self = <$number>::NEG_INFINITY;
        #[inline(always)]
        fn mul_add(self, a: Self, b: Self) -> Self {
            <$number>::mul_add(self, a, b)
        }
        #[inline(always)]
        fn sqrt(self) -> Self {
            <$number>::sqrt(self)
        }
        #[inline(always)]
        fn ln(self) -> Self {
            <$number>::ln(self)
        }
        #[inline(always)]
        fn from_f64(x: f64) -> Self {
            x as $number
        }
        #[inline(always)]
        fn to_f64(self) -> f64 {
            self as f64
        }
    };
}

impl Real for f32 {
    standard!(f32);
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
    #[inline]
    fn tile<const M: usize>(
        a: Left<'_, f32>,
        b: &[f32],
        c: &mut [f32],
        stride: usize,
        accumulate: bool,
        next: &[Self],
    ) {
        simd::tile_f32::<M>(a, b, c, stride, accumulate, next);
    }
}

impl Real for f64 {
    standard!(f64);
    #[inline(always)]
    fn exp(self) -> f64 {
        // As for `f32`; Taylor to r^13 has a rest below 2^-57.
        const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52
        const LOW: f64 = -745.2;
        const HIGH: f64 = 709.79;
        // 1 / 13!, .., 1 / 0!
        const TERMS: [f64; 14] = [
            1.0 / 6_227_020_800.0,
            1.0 / 479_001_600.0,
            1.0 / 39_916_800.0,
            1.0 / 3_628_800.0,
            1.0 / 362_880.0,
            1.0 / 40_320.0,
            1.0 / 5040.0,
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
            1.0,
            1.0,
        ];
        let x = if self < LOW { LOW } else { self };
        let over = x > HIGH;
        let x = if over { HIGH } else { x };
        let shifted = f64::mul_add(x, std::f64::consts::LOG2_E, MAGIC);
        let n = shifted - MAGIC;
        // ln 2 in two parts, the first of 33 bits.
        let r = f64::mul_add(n, -0.693_147_180_369_123_8, x);
        let r = f64::mul_add(n, -1.908_214_929_270_587_7e-10, r);
        let mut p = TERMS[0];
        for term in &TERMS[1..] {
            p = f64::mul_add(p, r, *term);
        }
        let n = shifted.to_bits().wrapping_sub(MAGIC.to_bits()) as i64;
        let half = n >> 1;
        let scale = |e: i64| f64::from_bits(((e + 1023) as u64) << 52);
        let y = p * scale(half) * scale(n - half);
        let y = if over { f64::INFINITY } else { y };
        if self < LOW { 0.0 } else { y }
    }
    #[inline]
    fn tile<const M: usize>(
        a: Left<'_, f64>,
        b: &[f64],
        c: &mut [f64],
        stride: usize,
        accumulate: bool,
        _: &[Self],
    ) {
        tile(M, a, b, c, stride, accumulate);
    }
}

kernel! {
    fn tile(m: usize, a: Left<'_, f64>, b: &[f64], c: &mut [f64], stride: usize, accumulate: bool) {
        simd::tile_portable(m, a, b, c, stride, accumulate);
    }
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
    fn exp_of_f64_is_within_one_unit_in_the_last_place() {
        let mut worst: f64 = 0.0;
        for i in -7_080_000..=7_090_000 {
            let x = f64::from(i) / 9_999.0;
            worst = worst.max((Real::exp(x) - x.exp()).abs() / x.exp());
        }
        assert!(worst < f64::EPSILON, "{worst:e}");
        for (x, expected) in [(0.0, 1.0), (f64::NEG_INFINITY, 0.0), (-746.0, 0.0), (710.0, f64::INFINITY)] {
            assert_eq!(Real::exp(x), expected, "{x}");
        }
        // The smallest numbers have fewer digits.
        for x in [-744.0, -730.0, -709.0] {
            assert!((Real::exp(x) - f64::exp(x)).abs() <= f64::from_bits(1), "{x}");
        }
        assert!(Real::exp(f64::NAN).is_nan());
    }
}
