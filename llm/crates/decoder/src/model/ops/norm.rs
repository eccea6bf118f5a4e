//! RMSNorm, with the residual sum before it: `y = x r w`, `r = 1 / sqrt(mean(x^2) + eps)`, per token.

use super::parallel::{by_column, by_token, by_token2};
use super::real::Real;
use super::simd::{self, Kernel};
use super::sums::{dot, sum_by};

struct Forward<'a, T> {
    x: &'a [T],
    weight: &'a [T],
    eps: T,
    y: &'a mut [T],
    scale: &'a mut [T],
}

impl<T: Real> Kernel for Forward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let h = self.weight.len();
        for ((x, y), scale) in self.x.chunks_exact(h).zip(self.y.chunks_exact_mut(h)).zip(self.scale) {
            *scale = self::scale(x, self.eps);
            apply(x, *scale, self.weight, y);
        }
    }
}

/// `1 / sqrt(mean(x^2) + eps)`.
#[inline(always)]
pub(super) fn scale<T: Real>(x: &[T], eps: T) -> T {
    T::ONE / (dot(x, x) / T::from_f64(x.len() as f64) + eps).sqrt()
}

#[inline(always)]
pub(super) fn apply<T: Real>(x: &[T], r: T, weight: &[T], y: &mut [T]) {
    for ((y, &x), &w) in y.iter_mut().zip(x).zip(weight) {
        *y = x * r * w;
    }
}

/// `y` and, per token, the scale `r` that [`backward`] and [`recompute`] need.
pub fn forward<T: Real>(x: &[T], weight: &[T], eps: T, y: &mut [T], scale: &mut [T]) {
    let h = weight.len();
    by_token2(y, h, scale, 1, |start, y, scale| {
        let x = &x[start * h..start * h + y.len()];
        simd::run(Forward { x, weight, eps, y, scale });
    });
}

struct Recompute<'a, T> {
    x: &'a [T],
    scale: &'a [T],
    weight: &'a [T],
    y: &'a mut [T],
}

impl<T: Real> Kernel for Recompute<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let h = self.weight.len();
        for ((x, y), &r) in self.x.chunks_exact(h).zip(self.y.chunks_exact_mut(h)).zip(self.scale) {
            apply(x, r, self.weight, y);
        }
    }
}

/// `y` once more, from the saved scale: cheaper to compute again than to keep.
pub fn recompute<T: Real>(x: &[T], scale: &[T], weight: &[T], y: &mut [T]) {
    let h = weight.len();
    by_token(y, h, |start, y| {
        let tokens = y.len() / h;
        let x = &x[start * h..start * h + y.len()];
        simd::run(Recompute { x, scale: &scale[start..start + tokens], weight, y });
    });
}

struct BackwardInput<'a, T> {
    x: &'a [T],
    scale: &'a [T],
    weight: &'a [T],
    dy: &'a [T],
    dx: &'a mut [T],
}

impl<T: Real> Kernel for BackwardInput<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let h = self.weight.len();
        let w = self.weight;
        let rows = self.x.chunks_exact(h).zip(self.dy.chunks_exact(h)).zip(self.dx.chunks_exact_mut(h));
        for (((x, dy), dx), &r) in rows.zip(self.scale) {
            let inner = sum_by(h, |i| dy[i] * w[i] * x[i]);
            let c = inner * r * r * r / T::from_f64(h as f64);
            for i in 0..h {
                dx[i] += r * dy[i] * w[i] - c * x[i];
            }
        }
    }
}

/// Adds `d loss / d x` to `dx`: `r w dy - x r^3 mean(w dy x)`.
pub fn backward<T: Real>(x: &[T], scale: &[T], weight: &[T], dy: &[T], dx: &mut [T]) {
    let h = weight.len();
    by_token(dx, h, |start, dx| {
        let tokens = dx.len() / h;
        let span = start * h..start * h + dx.len();
        simd::run(BackwardInput {
            x: &x[span.clone()],
            scale: &scale[start..start + tokens],
            weight,
            dy: &dy[span],
            dx,
        });
    });
}

struct BackwardWeight<'a, T> {
    x: &'a [T],
    scale: &'a [T],
    dy: &'a [T],
    h: usize,
    from: usize,
    dw: &'a mut [T],
}

impl<T: Real> Kernel for BackwardWeight<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (t, &r) in self.scale.iter().enumerate() {
            let start = t * self.h + self.from;
            let (x, dy) = (&self.x[start..start + self.dw.len()], &self.dy[start..start + self.dw.len()]);
            for i in 0..self.dw.len() {
                self.dw[i] = dy[i].mul_add(x[i] * r, self.dw[i]);
            }
        }
    }
}

/// Adds `d loss / d weight` to `dw`: the sum of `dy x r` over tokens, in their order.
pub fn backward_weight<T: Real>(x: &[T], scale: &[T], dy: &[T], dw: &mut [T]) {
    let h = dw.len();
    by_column(dw, scale.len(), |from, dw| simd::run(BackwardWeight { x, scale, dy, h, from, dw }));
}

struct Add<'a, T>(&'a mut [T], &'a [T]);

impl<T: Real> Kernel for Add<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (x, &y) in self.0.iter_mut().zip(self.1) {
            *x += y;
        }
    }
}

/// `x += y`.
pub fn add<T: Real>(x: &mut [T], y: &[T]) {
    by_token(x, 1, |start, x| simd::run(Add(x, &y[start..start + x.len()])));
}

struct AddRow<'a, T>(&'a mut [T], &'a [T]);

impl<T: Real> Kernel for AddRow<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for x in self.0.chunks_exact_mut(self.1.len()) {
            for (x, &b) in x.iter_mut().zip(self.1) {
                *x += b;
            }
        }
    }
}

/// Adds the bias to every token.
pub fn add_bias<T: Real>(x: &mut [T], bias: &[T]) {
    by_token(x, bias.len(), |_, x| simd::run(AddRow(x, bias)));
}

struct SumRows<'a, T> {
    dy: &'a [T],
    stride: usize,
    from: usize,
    db: &'a mut [T],
}

impl<T: Real> Kernel for SumRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for dy in self.dy.chunks_exact(self.stride) {
            for (db, &dy) in self.db.iter_mut().zip(&dy[self.from..]) {
                *db += dy;
            }
        }
    }
}

/// Adds the sum over tokens of columns `from..from + db.len()` of `dy` to `db`, in token order: the gradient of a bias.
pub fn backward_bias<T: Real>(dy: &[T], stride: usize, from: usize, db: &mut [T]) {
    by_column(db, dy.len() / stride, |start, db| simd::run(SumRows { dy, stride, from: from + start, db }));
}
