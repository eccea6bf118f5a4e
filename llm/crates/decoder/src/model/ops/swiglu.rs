//! The gate of the MLP: `y = silu(g) u` with `silu(g) = g / (1 + e^-g)`; `g` and `u` lie side by side, `2 F` per token.

use super::parallel::by_token;
use super::real::Real;
use super::simd::kernel;

#[inline(always)]
fn sigmoid<T: Real>(x: T) -> T {
    T::ONE / (T::ONE + (-x).exp())
}

kernel! {
    fn gate<T: Real>(gate_up: &[T], y: &mut [T], f: usize) {
        for (gu, y) in gate_up.chunks_exact(2 * f).zip(y.chunks_exact_mut(f)) {
            let (g, u) = gu.split_at(f);
            for ((y, &g), &u) in y.iter_mut().zip(g).zip(u) {
                *y = g * sigmoid(g) * u;
            }
        }
    }
}

/// `y` of every token, `width` = `F` numbers each.
pub fn forward<T: Real>(gate_up: &[T], width: usize, y: &mut [T]) {
    by_token(y, width, |start, y| {
        gate(&gate_up[2 * start * width..2 * (start * width + y.len())], y, width);
    });
}

kernel! {
    fn gate_gradient<T: Real>(gate_up: &mut [T], dy: &[T], f: usize) {
        for (gu, dy) in gate_up.chunks_exact_mut(2 * f).zip(dy.chunks_exact(f)) {
            let (g, u) = gu.split_at_mut(f);
            for ((g, u), &dy) in g.iter_mut().zip(u).zip(dy) {
                let s = sigmoid(*g);
                let silu = *g * s;
                let slope = s * (T::ONE + *g * (T::ONE - s));
                *g = dy * *u * slope;
                *u = dy * silu;
            }
        }
    }
}

/// Replaces `g, u` by `d loss / d g, d loss / d u`.
pub fn backward<T: Real>(gate_up: &mut [T], width: usize, dy: &[T]) {
    by_token(gate_up, 2 * width, |start, gate_up| {
        gate_gradient(gate_up, &dy[start * width..start * width + gate_up.len() / 2], width);
    });
}
