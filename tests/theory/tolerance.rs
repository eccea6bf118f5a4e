//! Every tolerance of the theory's tests, with its reason, and the comparisons that use them.

/// Two ways to compute the same numbers in f64, relative to the largest of them. A sum of a few thousand terms rounds to
/// about 1e-13 of its largest partial sum.
pub(crate) const IDENTITY: f64 = 1e-12;

/// A linear-time trace against its dense matrix, per unit of input at `T` up to 257.
pub(crate) const DENSE: f64 = 1e-12;

/// A derivative against finite differences, per entry. The stencil is of fourth order with step [`STEP`]: its
/// truncation is near 1e-13 of the curvature, its rounding near 1e-13 of the loss.
pub(crate) const FINITE_DIFFERENCE: f64 = 1e-6;

/// Addition to [`FINITE_DIFFERENCE`] for entries far smaller than the batch's largest, whose digits are lost in the loss:
/// this fraction of the largest.
pub(crate) const FINITE_DIFFERENCE_FLOOR: f64 = 1e-9;

/// Limit of a difference of losses over [`STEP`], per unit of the terms that were added up: a few roundings of the sum.
pub(crate) const FINITE_DIFFERENCE_ROUNDING: f64 = 16.0 * f64::EPSILON / STEP;

/// Step of the finite differences, in nats.
pub(crate) const STEP: f64 = 1e-3;

/// Against numbers recorded in f32: six to seven decimal digits of values of order one, summed over sixty tokens.
pub(crate) const RECORDED_F32: f64 = 2e-6;

/// Against f32 advantages of rewards that differ in their fifth digit: one f32 ulp of the mean, 6e-8, over a divisor of 1e-4.
pub(crate) const RECORDED_F32_TINY_SPREAD: f64 = 1e-3;

/// Against numbers recorded in f64.
pub(crate) const RECORDED_F64: f64 = 1e-13;

/// Largest absolute value.
pub(crate) fn size<'a>(values: impl IntoIterator<Item = &'a f64>) -> f64 {
    values.into_iter().fold(0.0, |m, x| x.abs().max(m))
}

/// True if two vectors agree within `tolerance` of `scale`, entry by entry.
#[track_caller]
pub(crate) fn assert_within(left: &[f64], right: &[f64], tolerance: f64, scale: f64, what: &str) {
    assert_eq!(left.len(), right.len(), "{what}: lengths");
    for (i, (l, r)) in left.iter().zip(right).enumerate() {
        assert!((l - r).abs() <= tolerance * scale, "{what}, entry {i}: {l} and {r}, scale {scale:e}");
    }
}

/// True if two vectors agree within `tolerance` of their largest entry.
#[track_caller]
pub(crate) fn assert_close(left: &[f64], right: &[f64], tolerance: f64, what: &str) {
    assert_within(left, right, tolerance, size(left).max(size(right)), what);
}

/// The inner product.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
