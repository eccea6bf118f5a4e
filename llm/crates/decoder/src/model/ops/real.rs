//! [`Real`]: what the decoder needs of a number.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

use super::left::Left;

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
    fn tile<const M: usize>(
        a: Left<'_, Self>,
        b: &[Self],
        c: &mut [Self],
        stride: usize,
        accumulate: bool,
        next: &[Self],
    );
}
