//! Complex numbers of some hundred bits, each with a bound on its error.
//!
//! The bound is the power of two that the distance from the true value does not exceed. It is carried coarsely, always
//! upwards, so that two values further apart than their bounds are proved to differ.

use std::cell::RefCell;

use astro_float_num::{BigFloat, Consts, RoundingMode, Sign, WORD_BIT_SIZE, Word};
use num_bigint::{BigInt, Sign as BigSign};
use num_rational::BigRational;

use super::verdict::{Reason, undefined};

const RM: RoundingMode = RoundingMode::ToEven;
/// Largest power of two of a value.
const EXPONENT: i64 = 1 << 24;
/// The error of a value without one.
const EXACT: i64 = i64::MIN / 4;

thread_local! {
    static CONSTANTS: RefCell<Option<Consts>> = RefCell::new(Consts::new().ok());
}

fn constants<T>(part: impl FnOnce(&mut Consts) -> T) -> Result<T, Reason> {
    CONSTANTS.with_borrow_mut(|known| known.as_mut().map(part).ok_or_else(too_large))
}

fn too_large() -> Reason {
    Reason::TooLarge("a value beyond the range of the evaluation".into())
}

/// A value: real without an imaginary part.
#[derive(Clone, Debug)]
pub(super) struct Ball {
    re: BigFloat,
    im: Option<BigFloat>,
    /// The power of two that bounds the error.
    pub(super) error: i64,
}

/// The power of two above the magnitude; very small for zero.
fn magnitude(x: &BigFloat) -> i64 {
    if x.is_zero() { EXACT } else { x.exponent().map_or(EXACT, i64::from) }
}

fn from_integer(n: &BigInt, p: usize) -> BigFloat {
    let (sign, bytes) = n.to_bytes_le();
    if sign == BigSign::NoSign {
        return BigFloat::new(p);
    }
    // A word has 32 bits where a pointer has.
    let word = |part: &[u8]| part.iter().rev().fold(0, |word: Word, byte| (word << 8) + Word::from(*byte));
    let words: Vec<Word> = bytes.chunks(WORD_BIT_SIZE / 8).map(word).collect();
    let sign = if sign == BigSign::Minus { Sign::Neg } else { Sign::Pos };
    let exponent = i32::try_from(words.len() * WORD_BIT_SIZE).unwrap_or(i32::MAX);
    BigFloat::from_words(&words, sign, exponent)
}

impl Ball {
    fn checked(re: BigFloat, im: Option<BigFloat>, error: i64, p: usize) -> Result<Ball, Reason> {
        let fits =
            |x: &BigFloat| !x.is_nan() && !x.is_inf() && (x.is_zero() || magnitude(x).abs() <= EXPONENT);
        if !fits(&re) || !im.as_ref().is_none_or(fits) {
            return Err(too_large());
        }
        let ball = Ball { re, im, error };
        Ok(Ball { error: error.max(ball.size() - p as i64) + 1, ..ball })
    }

    pub(super) fn rational(value: &BigRational, p: usize) -> Result<Ball, Reason> {
        let (top, bottom) = (from_integer(value.numer(), p), from_integer(value.denom(), p));
        Ball::checked(top.div(&bottom, p, RM), None, EXACT, p)
    }

    pub(super) fn float(value: f64, p: usize) -> Ball {
        Ball { re: BigFloat::from_f64(value, p), im: None, error: EXACT }
    }

    pub(super) fn complex(re: f64, im: f64, p: usize) -> Ball {
        Ball { im: Some(BigFloat::from_f64(im, p)), ..Ball::float(re, p) }
    }

    pub(super) fn i(p: usize) -> Ball {
        Ball::complex(0.0, 1.0, p)
    }

    pub(super) fn pi(p: usize) -> Result<Ball, Reason> {
        Ball::checked(constants(|cc| cc.pi(p, RM))?, None, EXACT, p)
    }

    pub(super) fn e(p: usize) -> Result<Ball, Reason> {
        Ball::checked(constants(|cc| cc.e(p, RM))?, None, EXACT, p)
    }

    fn imaginary(&self, p: usize) -> BigFloat {
        self.im.clone().unwrap_or_else(|| BigFloat::new(p))
    }

    /// The power of two above the magnitude.
    pub(super) fn size(&self) -> i64 {
        magnitude(&self.re).max(self.im.as_ref().map_or(EXACT, magnitude))
    }

    /// True if zero is within the error.
    pub(super) fn may_be_zero(&self) -> bool {
        (self.re.is_zero() && self.im.as_ref().is_none_or(BigFloat::is_zero)) || self.size() <= self.error + 2
    }

    /// Its real part. `None` if its imaginary part is not within the error of zero.
    pub(super) fn real(&self) -> Option<&BigFloat> {
        match &self.im {
            Some(im) if magnitude(im) > self.error + 2 => None,
            _ => Some(&self.re),
        }
    }

    /// True if it is a real number below zero, by more than its error.
    pub(super) fn is_negative(&self) -> Option<bool> {
        self.real().map(|re| re.is_negative() && !self.may_be_zero())
    }

    pub(super) fn negated(&self) -> Ball {
        Ball { re: self.re.neg(), im: self.im.as_ref().map(BigFloat::neg), error: self.error }
    }

    pub(super) fn plus(&self, other: &Ball, p: usize) -> Result<Ball, Reason> {
        let im = match (&self.im, &other.im) {
            (None, None) => None,
            _ => Some(self.imaginary(p).add(&other.imaginary(p), p, RM)),
        };
        // Rounding is relative to the result, so that cancellation costs nothing beyond the errors of the operands.
        Ball::checked(self.re.add(&other.re, p, RM), im, self.error.max(other.error) + 1, p)
    }

    pub(super) fn minus(&self, other: &Ball, p: usize) -> Result<Ball, Reason> {
        self.plus(&other.negated(), p)
    }

    pub(super) fn times(&self, other: &Ball, p: usize) -> Result<Ball, Reason> {
        let error =
            (self.error + other.size()).max(other.error + self.size()).max(self.error + other.error) + 3;
        let (a, c) = (&self.re, &other.re);
        if self.im.is_none() && other.im.is_none() {
            return Ball::checked(a.mul(c, p, RM), None, error.max(EXACT), p);
        }
        let (b, d) = (self.imaginary(p), other.imaginary(p));
        let re = a.mul(c, p, RM).sub(&b.mul(&d, p, RM), p, RM);
        let im = a.mul(&d, p, RM).add(&b.mul(c, p, RM), p, RM);
        let rounding = self.size() + other.size() - p as i64 + 2;
        Ball::checked(re, Some(im), error.max(rounding).max(EXACT), p)
    }

    pub(super) fn inverse(&self, p: usize) -> Result<Ball, Reason> {
        if self.may_be_zero() {
            return undefined("a division by zero");
        }
        // |1/x - 1/y| = |x - y| / |x y|, with |y| > |x| / 2 because the error is below a quarter of the value.
        let error = (self.error - 2 * self.size() + 6).max(-self.size() - p as i64 + 4);
        let Some(im) = &self.im else { return Ball::checked(self.re.reciprocal(p, RM), None, error, p) };
        let norm = self.re.mul(&self.re, p, RM).add(&im.mul(im, p, RM), p, RM);
        Ball::checked(self.re.div(&norm, p, RM), Some(im.neg().div(&norm, p, RM)), error, p)
    }

    pub(super) fn power(&self, n: u64, p: usize) -> Result<Ball, Reason> {
        let (mut result, mut base, mut n) = (Ball::float(1.0, p), self.clone(), n);
        loop {
            if n & 1 == 1 {
                result = result.times(&base, p)?;
            }
            n >>= 1;
            if n == 0 {
                return Ok(result);
            }
            base = base.times(&base, p)?;
        }
    }

    pub(super) fn abs(&self, p: usize) -> Result<Ball, Reason> {
        let Some(im) = &self.im else { return Ok(Ball { re: self.re.abs(), ..self.clone() }) };
        let norm = self.re.mul(&self.re, p, RM).add(&im.mul(im, p, RM), p, RM);
        Ball::checked(norm.sqrt(p, RM), None, self.error + 2, p)
    }

    /// The real root of odd order of a real number, the principal root of anything else.
    pub(super) fn root(&self, order: u32, p: usize) -> Result<Ball, Reason> {
        if self.may_be_zero() {
            // |root| is at most the root of the error.
            let error = (self.error.max(self.size()) + 2).div_euclid(i64::from(order)) + 1;
            return Ok(Ball { error, ..Ball::float(0.0, p) });
        }
        if order % 2 == 1 && self.is_negative() == Some(true) {
            return Ok(self.negated().root(order, p)?.negated());
        }
        if order == 2
            && let Some(re) = self.real()
        {
            let root = re.abs().sqrt(p, RM);
            let error = self.error - magnitude(&root) + 2;
            let (re, im) = if re.is_negative() { (BigFloat::new(p), Some(root)) } else { (root, None) };
            return Ball::checked(re, im, error, p);
        }
        let order = Ball::float(f64::from(order), p).inverse(p)?;
        self.ln(p)?.times(&order, p)?.exp(p)
    }

    pub(super) fn exp(&self, p: usize) -> Result<Ball, Reason> {
        if self.size() > 24 {
            return Err(too_large());
        }
        let scale = constants(|cc| self.re.exp(p, RM, cc))?;
        let error = self.error.min(0) + magnitude(&scale) + 2 + self.error.max(0);
        let real = Ball::checked(scale, None, error, p)?;
        let Some(im) = &self.im else { return Ok(real) };
        let (cos, sin) = constants(|cc| (im.cos(p, RM, cc), im.sin(p, RM, cc)))?;
        real.times(&Ball::checked(cos, Some(sin), self.error + 1, p)?, p)
    }

    /// The principal logarithm.
    pub(super) fn ln(&self, p: usize) -> Result<Ball, Reason> {
        if self.may_be_zero() {
            return undefined("the logarithm of zero");
        }
        let error = self.error - self.size() + 3;
        let length = self.abs(p)?;
        let re = constants(|cc| length.re.ln(p, RM, cc))?;
        if self.real().is_some() && !self.re.is_negative() {
            return Ball::checked(re, None, error, p);
        }
        let angle = self.angle(p)?;
        Ball::checked(re, Some(angle.re), error.max(angle.error), p)
    }

    /// The angle from -pi to pi.
    fn angle(&self, p: usize) -> Result<Ball, Reason> {
        let error = self.error - self.size() + 4;
        let pi = Ball::pi(p)?.re;
        if self.real().is_some() {
            return Ball::checked(if self.re.is_negative() { pi } else { BigFloat::new(p) }, None, error, p);
        }
        let im = self.imaginary(p);
        let half = pi.div(&BigFloat::from_f64(2.0, p), p, RM);
        let angle = if magnitude(&self.re) < magnitude(&im) {
            // From the imaginary axis.
            let turn = constants(|cc| self.re.div(&im, p, RM).atan(p, RM, cc))?;
            let axis = if im.is_negative() { half.neg() } else { half };
            axis.sub(&turn, p, RM)
        } else {
            let turn = constants(|cc| im.div(&self.re, p, RM).atan(p, RM, cc))?;
            match (self.re.is_negative(), im.is_negative()) {
                (false, _) => turn,
                (true, false) => turn.add(&pi, p, RM),
                (true, true) => turn.sub(&pi, p, RM),
            }
        };
        Ball::checked(angle, None, error.max(4 - p as i64), p)
    }

    pub(super) fn cos_sin(&self, p: usize) -> Result<(Ball, Ball), Reason> {
        let Some(re) = self.real() else {
            let (cos, sin) = self.times(&Ball::i(p), p)?.cosh_sinh(p)?;
            return Ok((cos, sin.times(&Ball::i(p).negated(), p)?));
        };
        if self.size() > 64 {
            return Err(too_large());
        }
        let (cos, sin) = constants(|cc| (re.cos(p, RM, cc), re.sin(p, RM, cc)))?;
        Ok((Ball::checked(cos, None, self.error, p)?, Ball::checked(sin, None, self.error, p)?))
    }

    pub(super) fn cosh_sinh(&self, p: usize) -> Result<(Ball, Ball), Reason> {
        let (up, down, half) = (self.exp(p)?, self.negated().exp(p)?, Ball::float(0.5, p));
        Ok((up.plus(&down, p)?.times(&half, p)?, up.minus(&down, p)?.times(&half, p)?))
    }

    /// The arc sine of a real number from -1 to 1.
    pub(super) fn arcsin(&self, p: usize) -> Result<Ball, Reason> {
        let Some(re) = self.real() else { return undefined("the arc sine of a complex number") };
        let one = BigFloat::from_f64(1.0, p);
        let room = one.sub(&re.abs(), p, RM);
        if magnitude(&room) <= self.error.max(2 - p as i64) + 2 {
            let half = Ball::pi(p)?.times(&Ball::float(0.5, p), p)?;
            let error = self.error.max(2 - p as i64).div_euclid(2) + 3;
            return Ok(Ball { error, ..if re.is_negative() { half.negated() } else { half } });
        }
        if room.is_negative() {
            return undefined("the arc sine of a number beyond 1");
        }
        let value = constants(|cc| re.asin(p, RM, cc))?;
        Ball::checked(value, None, self.error - magnitude(&room).div_euclid(2) + 2, p)
    }

    /// The arc tangent of a real number.
    pub(super) fn arctan(&self, p: usize) -> Result<Ball, Reason> {
        let Some(re) = self.real() else { return undefined("the arc tangent of a complex number") };
        Ball::checked(constants(|cc| re.atan(p, RM, cc))?, None, self.error + 1, p)
    }

    /// The whole number within its error, and true; otherwise the next one below, and false.
    pub(super) fn floor(&self, p: usize) -> Result<(i64, bool), Reason> {
        let Some(re) = self.real() else { return undefined("rounding a complex number") };
        let half = BigFloat::from_f64(0.5, p);
        let nearest = re.add(&half, p, RM).floor();
        let distance = re.sub(&nearest, p, RM);
        let whole = magnitude(&distance) <= self.error.max(magnitude(re) - p as i64) + 2;
        let below = if whole { nearest } else { re.floor() };
        to_i64(&below).map(|n| (n, whole)).ok_or_else(too_large)
    }
}

/// A whole number of at most 62 bits.
fn to_i64(x: &BigFloat) -> Option<i64> {
    if x.is_zero() {
        return Some(0);
    }
    let (words, _, sign, exponent, _) = x.as_raw_parts()?;
    let highest = words.iter().rev().chain(std::iter::repeat(&0)).take(64 / WORD_BIT_SIZE);
    let top = highest.fold(0u128, |top, word| (top << WORD_BIT_SIZE) + u128::from(*word));
    let n = (1..=62).contains(&exponent).then(|| (top >> (64 - exponent)) as i64)?;
    Some(if sign == Sign::Neg { -n } else { n })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Value = (f64, Option<f64>);

    const EXACTLY: usize = 400;

    fn exact((re, im): Value) -> Ball {
        im.map_or(Ball::float(re, EXACTLY), |im| Ball::complex(re, im, EXACTLY))
    }

    /// `exact(value)`, moved by so many times `2^error` and with that error.
    fn moved(value: Value, (by_re, by_im): (f64, f64), error: i64) -> Ball {
        let (ball, unit) = (exact(value), 2f64.powi(error as i32));
        let moved = |x: &BigFloat, by: f64| x.add(&BigFloat::from_f64(by * unit, EXACTLY), EXACTLY, RM);
        Ball { re: moved(&ball.re, by_re), im: ball.im.as_ref().map(|im| moved(im, by_im)), error }
    }

    /// The power of two above the distance of two values.
    fn distance(a: &Ball, b: &Ball) -> i64 {
        let between = |a: &BigFloat, b: &BigFloat| magnitude(&a.sub(b, EXACTLY, RM));
        between(&a.re, &b.re).max(between(&a.imaginary(EXACTLY), &b.imaginary(EXACTLY)))
    }

    /// Asserts that values of a function lie within their error of the true value, whatever of the argument's error is
    /// used up and however few bits it has, and that the error is not much too large; for rounded values and ones that are off.
    fn holds(
        name: &str,
        values: &[Value],
        (rounding, room): (i64, i64),
        value: impl Fn(&Ball, usize) -> Result<Ball, Reason>,
    ) {
        for &at in values {
            let truth = value(&exact(at), EXACTLY).unwrap();
            let rounded = value(&exact(at), 64).unwrap();
            assert!(distance(&rounded, &truth) <= rounded.error, "{name} {at:?}");
            let size = truth.size().max(EXACT / 2);
            let off = rounded.error - size;
            assert!(off <= rounding - 64 || truth.re.is_zero(), "{name} {at:?}: {off}");
            for bits in [12, 40] {
                let error = exact(at).size() - bits;
                let (mut farthest, mut bound) = (EXACT, EXACT);
                for by in [(0.95, 0.0), (-0.95, 0.0), (0.0, 0.95), (0.0, -0.95)] {
                    let found = value(&moved(at, by, error), 200).unwrap();
                    let away = distance(&found, &truth);
                    assert!(away <= found.error, "{name} {at:?} {bits} {by:?}: {away} beyond {found:?}");
                    (farthest, bound) = (farthest.max(away), bound.max(found.error));
                }
                assert!(bound - farthest <= room, "{name} {at:?} {bits}: {bound} for {farthest}");
            }
        }
    }

    const REAL: [Value; 7] =
        [(0.75, None), (3.5, None), (-2.25, None), (100.0, None), (-0.001, None), (1e6, None), (-1e-9, None)];
    const COMPLEX: [Value; 7] = [
        (0.75, Some(0.5)),
        (3.5, Some(-40.0)),
        (-2.25, Some(1.0)),
        (-100.0, Some(-3.0)),
        (-0.001, Some(-0.002)),
        (1e-3, Some(9.0)),
        (-5e-9, Some(3e-9)),
    ];

    #[test]
    fn errors_of_sums_products_and_inverses_hold_and_are_not_far_off() {
        let all = [&REAL[..], &COMPLEX].concat();
        for other in [(2.5, None), (-0.01, None), (300.0, Some(-7.0)), (0.002, Some(0.001))] {
            holds("plus", &all, (1, 2), |x, p| x.plus(&exact(other), p));
            holds("times", &all, (4, 5), |x, p| x.times(&exact(other), p));
            // Both are off, each by its own error.
            let error = exact(other).size() - 12;
            for by in [(0.95, 0.0), (0.0, -0.95)] {
                for value in &all {
                    let (a, b) = (moved(*value, by, exact(*value).size() - 12), moved(other, by, error));
                    let truth = exact(*value).times(&exact(other), EXACTLY).unwrap();
                    let found = a.times(&b, 200).unwrap();
                    assert!(distance(&found, &truth) <= found.error, "{value:?} {other:?}");
                }
            }
        }
        holds("twice", &all, (1, 1), |x, p| x.plus(x, p));
        holds("square", &all, (4, 4), |x, p| x.times(x, p));
        holds("inverse", &all, (5, 6), Ball::inverse);
        holds("fifth power", &all, (14, 12), |x, p| x.power(5, p));
        holds("abs", &all, (1, 3), Ball::abs);
    }

    #[test]
    fn errors_of_functions_hold_and_are_not_far_off() {
        let all = [&REAL[..], &COMPLEX].concat();
        let small: Vec<Value> = all.iter().copied().filter(|(re, _)| re.abs() < 50.0).collect();
        holds("square root of a real number", &REAL, (9, 9), |x, p| x.root(2, p));
        holds("square root", &all, (19, 18), |x, p| x.root(2, p));
        holds("cube root", &all, (19, 18), |x, p| x.root(3, p));
        holds("exp", &small, (6, 8), Ball::exp);
        let near_one = [(1.0 + 1e-3, None), (0.5, None), (2.5, None), (1e6, None), (1e-9, None)];
        holds("ln", &near_one, (6, 6), Ball::ln);
        holds("ln", &COMPLEX, (6, 6), Ball::ln);
        holds("angle", &COMPLEX, (5, 5), Ball::angle);
        let (angles, turned) =
            ([(0.75, None), (3.5, None), (-2.25, None)], [(0.3, Some(0.2)), (-2.0, Some(-3.0))]);
        for (values, room) in [(&angles[..], (9, 9)), (&turned, (25, 24))] {
            holds("cos", values, room, |x, p| Ok(x.cos_sin(p)?.0));
            holds("sin", values, room, |x, p| Ok(x.cos_sin(p)?.1));
        }
        holds("arcsin", &[(0.75, None), (-0.3, None), (0.999, None), (-0.99, None)], (1, 3), Ball::arcsin);
        holds("arctan", &[(0.75, None), (-2.25, None), (0.01, None)], (1, 4), Ball::arctan);
    }

    /// `2^error` around a value; 1.0 lies below `2^1`.
    fn around(re: f64, im: Option<f64>, error: i64) -> Ball {
        Ball { error, ..exact((re, im)) }
    }

    #[test]
    fn zero_and_real_are_decided_within_the_error() {
        assert!(around(1.0, None, -1).may_be_zero() && !around(1.0, None, -2).may_be_zero());
        assert!(!around(0.0, Some(1.0), -2).may_be_zero() && around(0.0, Some(0.0), EXACT).may_be_zero());
        assert!(around(5.0, Some(1.0), -1).real().is_some() && around(5.0, Some(1.0), -2).real().is_none());
        assert_eq!(around(-5.0, Some(1.0), -1).is_negative(), Some(true));
        assert_eq!(around(-1.0, None, -1).is_negative(), Some(false));
        let sum = around(1.0, None, -9).plus(&around(2.0, None, -9), 64).unwrap();
        assert!(sum.im.is_none());
        // The root of what may be zero is zero within the root of its error.
        let root = |error, order| around(0.0, None, error).root(order, 64).unwrap();
        assert_eq!([root(-100, 2).error, root(-100, 3).error, root(-101, 2).error], [-48, -32, -49]);
        assert!(root(-100, 2).re.is_zero());
        // Half a bit of the error of an arc sine is lost at 1: its slope has no bound there.
        let edge = around(1.0, None, -60).arcsin(128).unwrap();
        assert_eq!(edge.error, -27);
        let beyond = |by: f64, error| around(1.0 + by, None, error).arcsin(128);
        assert!(beyond(2f64.powi(-12), -12).is_ok() && beyond(2f64.powi(-12), -14).is_err());
        let within = beyond(-(2f64.powi(-12)), -12).unwrap();
        assert_eq!(within.error, -3);
    }

    #[test]
    fn whole_numbers_are_found_within_the_error() {
        let floor = |re: f64, error| around(re, None, error).floor(64).unwrap();
        assert_eq!([2.5, -2.5, -3.0].map(|x| floor(x, -40)), [(2, false), (-3, false), (-3, true)]);
        let below = 3.0 - 2f64.powi(-10);
        assert_eq!((floor(below, -11), floor(below, -12)), ((3, true), (2, false)));
        assert_eq!((floor(0.25, -40), floor(1e15, -40)), ((0, false), (1_000_000_000_000_000, true)));
        assert!(around(1.5, Some(1.0), -40).floor(64).is_err() && around(1e20, None, -40).floor(64).is_err());
    }

    #[test]
    fn what_leaves_the_range_is_refused() {
        let of_size = |exponent: i32| {
            let mut x = BigFloat::from_f64(1.0, 64);
            x.set_exponent(exponent);
            x
        };
        let (one, most) = (|| of_size(1), EXPONENT as i32);
        assert!(Ball::checked(of_size(most), None, EXACT, 64).is_ok());
        assert!(Ball::checked(of_size(most + 1), None, EXACT, 64).is_err());
        assert!(Ball::checked(one(), Some(of_size(most + 1)), EXACT, 64).is_err());
        assert!(Ball::checked(of_size(-most - 1), Some(one()), EXACT, 64).is_err());
        // The exponential of 2^23 has twelve million bits before its point; 2^24 is refused.
        assert!(exact((8_388_608.0, None)).exp(64).is_ok() && exact((16_777_216.0, None)).exp(64).is_err());
        let turn = |exponent: i32| exact((2f64.powi(exponent), None)).cos_sin(64);
        assert!(turn(63).is_ok() && turn(64).is_err());
        assert!(exact((0.0, None)).inverse(64).is_err() && exact((0.0, None)).ln(64).is_err());
    }
}
