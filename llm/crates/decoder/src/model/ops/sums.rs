//! Sums whose order depends on their length alone, and the largest of some numbers.

use super::real::Real;

/// Partial sums kept side by side; a sum over `n` terms depends on `n` alone, not on the vectors of the processor.
const LANES: usize = 16;

/// The partial sums added as a tree.
#[inline(always)]
fn tree_sum<T: Real>(mut lanes: [T; LANES]) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            lanes[l] += lanes[l + width];
        }
        width /= 2;
    }
    lanes[0]
}

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
    tree_sum(lanes)
}

/// `sum_i a[i] b[i]`, with fused multiply-adds, in the order of [`sum_by`].
#[inline(always)]
pub(crate) fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    let (b, b_rest) = b[..a.len()].as_chunks::<LANES>();
    let (a, a_rest) = a.as_chunks::<LANES>();
    let mut lanes = [T::ZERO; LANES];
    for (a, b) in a.iter().zip(b) {
        for l in 0..LANES {
            lanes[l] = a[l].mul_add(b[l], lanes[l]);
        }
    }
    for l in 0..a_rest.len() {
        lanes[l] = a_rest[l].mul_add(b_rest[l], lanes[l]);
    }
    tree_sum(lanes)
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
    let (x, rest) = x.as_chunks::<LANES>();
    for x in x {
        for l in 0..LANES {
            lanes[l] = larger(lanes[l], x[l]);
        }
    }
    for (l, &x) in rest.iter().enumerate() {
        lanes[l] = larger(lanes[l], x);
    }
    lanes.into_iter().fold(T::NEG_INFINITY, larger)
}

#[cfg(test)]
mod tests {
    use super::*;

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
