//! [`Real`], a number of the decoder, and [`Left`], the left side of a matrix product.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

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

/// The left side of a product: element `(i, k)` is `data[i * row + k * step]`; one of the strides is 1.
#[derive(Clone, Copy)]
pub struct Left<'a, T> {
    pub(super) data: &'a [T],
    pub(super) row: usize,
    pub(super) step: usize,
}

impl<'a, T> Left<'a, T> {
    /// A matrix stored by rows that are `stride` apart.
    pub fn rows(data: &'a [T], stride: usize) -> Self {
        Self { data, row: stride, step: 1 }
    }

    /// The transpose of a matrix stored by rows that are `stride` apart.
    pub fn transposed(data: &'a [T], stride: usize) -> Self {
        Self { data, row: 1, step: stride }
    }

    /// From row `i` and step `k` on.
    pub(super) fn after(self, i: usize, k: usize) -> Self {
        Self { data: &self.data[(i * self.row + k * self.step).min(self.data.len())..], ..self }
    }

    /// True if it has `rows` rows of `steps` elements.
    pub(super) fn covers(&self, rows: usize, steps: usize) -> bool {
        rows == 0 || steps == 0 || (rows - 1) * self.row + (steps - 1) * self.step < self.data.len()
    }
}
