//! RMSNorm of groups of a token's numbers, `y = x r w` with `r = 1 / sqrt(mean(x^2) + eps)` in each group; and sums of streams and biases.

use std::ops::Range;

use super::parallel::{by_column, by_token, by_token2};
use super::real::Real;
use super::simd::kernel;
use super::sums::{dot, sum_by};

/// The groups of a token's numbers that are normed, each by itself, with their weights. Numbers after the last group stay.
#[derive(Clone, Debug)]
pub struct Groups<'a, T> {
    stride: usize,
    groups: Vec<(Range<usize>, &'a [T])>,
}

impl<'a, T> Groups<'a, T> {
    /// Groups side by side from the first of a token's `stride` numbers on: so many with this weight, as long as it, then those of the next.
    pub fn new(stride: usize, parts: impl IntoIterator<Item = (usize, &'a [T])>) -> Self {
        let mut groups = Vec::new();
        let mut end = 0;
        for weight in parts.into_iter().flat_map(|(count, weight)| std::iter::repeat_n(weight, count)) {
            groups.push((end..end + weight.len(), weight));
            end += weight.len();
        }
        Self { stride, groups }
    }

    /// All numbers of a token as one group.
    pub fn whole(weight: &'a [T]) -> Self {
        Self::new(weight.len(), [(1, weight)])
    }

    /// Numbers of a token.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Groups of a token, each of which has a scale.
    pub fn count(&self) -> usize {
        self.groups.len()
    }

    /// Numbers and scales of tokens from `start` on, as many as have `len` numbers.
    fn part<'x>(&self, start: usize, len: usize, x: &'x [T], scale: &'x [T]) -> (&'x [T], &'x [T]) {
        let (tokens, count) = (len / self.stride, self.count());
        (&x[start * self.stride..][..len], &scale[start * count..][..tokens * count])
    }
}

kernel! {
    fn scales<T: Real>(norm: &Groups<'_, T>, x: &[T], eps: T, scale: &mut [T]) {
        for (x, scale) in x.chunks_exact(norm.stride).zip(scale.chunks_exact_mut(norm.groups.len())) {
            for ((span, _), scale) in norm.groups.iter().zip(scale) {
                let x = &x[span.clone()];
                *scale = T::ONE / (dot(x, x) / T::from_f64(x.len() as f64) + eps).sqrt();
            }
        }
    }
}

kernel! {
    fn apply<T: Real>(norm: &Groups<'_, T>, x: &[T], scale: &[T], y: &mut [T]) {
        let normed = norm.groups.last().map_or(0, |(span, _)| span.end);
        let tokens = x.chunks_exact(norm.stride).zip(y.chunks_exact_mut(norm.stride));
        for ((x, y), scale) in tokens.zip(scale.chunks_exact(norm.groups.len())) {
            for ((span, weight), &r) in norm.groups.iter().zip(scale) {
                let numbers = y[span.clone()].iter_mut().zip(&x[span.clone()]);
                for ((y, &x), &w) in numbers.zip(*weight) {
                    *y = x * r * w;
                }
            }
            y[normed..].copy_from_slice(&x[normed..]);
        }
    }
}

/// `y` and the scale `r` of every group of every token, which [`recompute`] and [`backward`] read.
pub fn forward<T: Real>(norm: &Groups<'_, T>, x: &[T], eps: T, y: &mut [T], scale: &mut [T]) {
    by_token2(y, norm.stride, scale, norm.count(), |start, y, scale| {
        let x = &x[start * norm.stride..start * norm.stride + y.len()];
        scales(norm, x, eps, scale);
        apply(norm, x, scale, y);
    });
}

/// Recomputes `y` from the saved scales, which is cheaper than to keep it.
pub fn recompute<T: Real>(norm: &Groups<'_, T>, x: &[T], scale: &[T], y: &mut [T]) {
    by_token(y, norm.stride, |start, y| {
        let (x, scale) = norm.part(start, y.len(), x, scale);
        apply(norm, x, scale, y);
    });
}

kernel! {
    fn input_gradient<T: Real>(norm: &Groups<'_, T>, x: &[T], scale: &[T], dy: &mut [T]) {
        let tokens = x.chunks_exact(norm.stride).zip(dy.chunks_exact_mut(norm.stride));
        for ((x, dy), scale) in tokens.zip(scale.chunks_exact(norm.groups.len())) {
            for ((span, w), &r) in norm.groups.iter().zip(scale) {
                let (x, dy, n) = (&x[span.clone()], &mut dy[span.clone()], w.len());
                let inner = sum_by(n, |i| dy[i] * w[i] * x[i]);
                let c = inner * r * r * r / T::from_f64(n as f64);
                for i in 0..n {
                    dy[i] = r * dy[i] * w[i] - c * x[i];
                }
            }
        }
    }
}

/// Replaces `d loss / d y` by `d loss / d x`: `r w dy - x r^3 mean(w dy x)` in every group.
pub fn backward<T: Real>(norm: &Groups<'_, T>, x: &[T], scale: &[T], dy: &mut [T]) {
    by_token(dy, norm.stride, |start, dy| {
        let (x, scale) = norm.part(start, dy.len(), x, scale);
        input_gradient(norm, x, scale, dy);
    });
}

kernel! {
    /// Adds to the columns of the weight from `from` on.
    fn weight_gradient<T: Real>(
        norm: &Groups<'_, T>,
        sharing: Range<usize>,
        x: &[T],
        scale: &[T],
        dy: &[T],
        from: usize,
        dw: &mut [T],
    ) {
        for (t, scale) in scale.chunks_exact(norm.groups.len()).enumerate() {
            for ((span, _), &r) in norm.groups[sharing.clone()].iter().zip(&scale[sharing.clone()]) {
                let start = t * norm.stride + span.start + from;
                let (x, dy) = (&x[start..start + dw.len()], &dy[start..start + dw.len()]);
                for i in 0..dw.len() {
                    dw[i] = dy[i].mul_add(x[i] * r, dw[i]);
                }
            }
        }
    }
}

/// Adds `d loss / d weight` of the groups `sharing` a weight to `dw`: the sum of `dy x r` over tokens, and over a token's groups, in their
/// order. `dy` is `d loss / d y`, before [`backward`] replaces it.
pub fn backward_weight<T: Real>(
    norm: &Groups<'_, T>,
    sharing: Range<usize>,
    x: &[T],
    scale: &[T],
    dy: &[T],
    dw: &mut [T],
) {
    by_column(dw, scale.len(), |from, dw| weight_gradient(norm, sharing.clone(), x, scale, dy, from, dw));
}

kernel! {
    fn add_numbers<T: Real>(x: &mut [T], y: &[T]) {
        for (x, &y) in x.iter_mut().zip(y) {
            *x += y;
        }
    }
}

/// `x += y`.
pub fn add<T: Real>(x: &mut [T], y: &[T]) {
    by_token(x, 1, |start, x| add_numbers(x, &y[start..start + x.len()]));
}

kernel! {
    fn add_row<T: Real>(x: &mut [T], row: &[T]) {
        for x in x.chunks_exact_mut(row.len()) {
            for (x, &b) in x.iter_mut().zip(row) {
                *x += b;
            }
        }
    }
}

/// Adds the bias to every token.
pub fn add_bias<T: Real>(x: &mut [T], bias: &[T]) {
    by_token(x, bias.len(), |_, x| add_row(x, bias));
}

kernel! {
    fn sum_rows<T: Real>(dy: &[T], stride: usize, from: usize, db: &mut [T]) {
        for dy in dy.chunks_exact(stride) {
            for (db, &dy) in db.iter_mut().zip(&dy[from..]) {
                *db += dy;
            }
        }
    }
}

/// Adds the sum over tokens of columns `from..from + db.len()` of `dy` to `db`, in token order: the gradient of a bias.
pub fn backward_bias<T: Real>(dy: &[T], stride: usize, from: usize, db: &mut [T]) {
    by_column(db, dy.len() / stride, |start, db| sum_rows(dy, stride, from + start, db));
}
