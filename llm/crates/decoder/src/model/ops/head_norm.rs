//! RMSNorm of every query head and of every key head of the fused projection, each over the numbers of its head; values stay.
//!
//! As [`super::norm`], `y = x r w` with `r = 1 / sqrt(mean(x^2) + eps)`; the query heads share a weight, and so do the key heads.

use std::ops::Range;

use super::attention::Heads;
use super::norm;
use super::parallel::{by_column, by_token, by_token2};
use super::real::Real;
use super::simd::{self, Kernel};
use super::sums::sum_by;

/// The weights of the two norms, one number per number of a head.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a, T> {
    /// Of every query head.
    pub query: &'a [T],
    /// Of every key head.
    pub key: &'a [T],
}

impl<'a, T> Weights<'a, T> {
    /// The weight of a head, queries before keys.
    fn of(&self, heads: Heads, head: usize) -> &'a [T] {
        if head < heads.query { self.query } else { self.key }
    }
}

struct Forward<'a, T> {
    heads: Heads,
    qkv: &'a [T],
    weights: Weights<'a, T>,
    eps: T,
    out: &'a mut [T],
    scale: &'a mut [T],
}

impl<T: Real> Kernel for Forward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (d, stride, normed) = (self.heads.dim, self.heads.stride(), self.heads.rotated());
        let tokens = self.qkv.chunks_exact(stride).zip(self.out.chunks_exact_mut(stride));
        for ((x, y), scale) in tokens.zip(self.scale.chunks_exact_mut(normed)) {
            for (head, scale) in scale.iter_mut().enumerate() {
                let span = head * d..(head + 1) * d;
                *scale = norm::scale(&x[span.clone()], self.eps);
                norm::apply(&x[span.clone()], *scale, self.weights.of(self.heads, head), &mut y[span]);
            }
            y[normed * d..].copy_from_slice(&x[normed * d..]);
        }
    }
}

/// `out`, shaped as `qkv`, and the scale of every query and key head of every token, which the backward pass needs.
pub fn forward<T: Real>(
    heads: Heads,
    qkv: &[T],
    weights: Weights<'_, T>,
    eps: T,
    out: &mut [T],
    scale: &mut [T],
) {
    let stride = heads.stride();
    by_token2(out, stride, scale, heads.rotated(), |start, out, scale| {
        let qkv = &qkv[start * stride..start * stride + out.len()];
        simd::run(Forward { heads, qkv, weights, eps, out, scale });
    });
}

struct Again<'a, T> {
    heads: Heads,
    qkv: &'a [T],
    scale: &'a [T],
    weights: Weights<'a, T>,
    out: &'a mut [T],
}

impl<T: Real> Kernel for Again<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (d, stride, normed) = (self.heads.dim, self.heads.stride(), self.heads.rotated());
        let tokens = self.qkv.chunks_exact(stride).zip(self.out.chunks_exact_mut(stride));
        for ((x, y), scale) in tokens.zip(self.scale.chunks_exact(normed)) {
            for (head, &scale) in scale.iter().enumerate() {
                let span = head * d..(head + 1) * d;
                norm::apply(&x[span.clone()], scale, self.weights.of(self.heads, head), &mut y[span]);
            }
            y[normed * d..].copy_from_slice(&x[normed * d..]);
        }
    }
}

/// `out` once more, from the saved scales.
pub fn again<T: Real>(heads: Heads, qkv: &[T], scale: &[T], weights: Weights<'_, T>, out: &mut [T]) {
    let (stride, normed) = (heads.stride(), heads.rotated());
    by_token(out, stride, |start, out| {
        let tokens = start..start + out.len() / stride;
        let qkv = &qkv[tokens.start * stride..tokens.end * stride];
        let scale = &scale[tokens.start * normed..tokens.end * normed];
        simd::run(Again { heads, qkv, scale, weights, out });
    });
}

struct Backward<'a, T> {
    heads: Heads,
    qkv: &'a [T],
    scale: &'a [T],
    weights: Weights<'a, T>,
    dqkv: &'a mut [T],
}

impl<T: Real> Kernel for Backward<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (d, stride, normed) = (self.heads.dim, self.heads.stride(), self.heads.rotated());
        let tokens = self.qkv.chunks_exact(stride).zip(self.dqkv.chunks_exact_mut(stride));
        for ((x, dy), scale) in tokens.zip(self.scale.chunks_exact(normed)) {
            for (head, &r) in scale.iter().enumerate() {
                let w = self.weights.of(self.heads, head);
                let (x, dy) = (&x[head * d..(head + 1) * d], &mut dy[head * d..(head + 1) * d]);
                let inner = sum_by(d, |i| dy[i] * w[i] * x[i]);
                let c = inner * r * r * r / T::from_f64(d as f64);
                for i in 0..d {
                    dy[i] = r * dy[i] * w[i] - c * x[i];
                }
            }
        }
    }
}

/// Replaces `d loss / d out` by `d loss / d qkv` in place: `r w dy - x r^3 mean(w dy x)` in every query and key head.
pub fn backward<T: Real>(heads: Heads, qkv: &[T], scale: &[T], weights: Weights<'_, T>, dqkv: &mut [T]) {
    let (stride, normed) = (heads.stride(), heads.rotated());
    by_token(dqkv, stride, |start, dqkv| {
        let tokens = start..start + dqkv.len() / stride;
        let qkv = &qkv[tokens.start * stride..tokens.end * stride];
        let scale = &scale[tokens.start * normed..tokens.end * normed];
        simd::run(Backward { heads, qkv, scale, weights, dqkv });
    });
}

struct BackwardWeight<'a, T> {
    heads: Heads,
    /// The heads that share the weight.
    of: Range<usize>,
    qkv: &'a [T],
    scale: &'a [T],
    dy: &'a [T],
    /// First column of `dw` in the weight.
    from: usize,
    dw: &'a mut [T],
}

impl<T: Real> Kernel for BackwardWeight<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (d, stride, normed) = (self.heads.dim, self.heads.stride(), self.heads.rotated());
        for (t, scale) in self.scale.chunks_exact(normed).enumerate() {
            for head in self.of.clone() {
                let at = t * stride + head * d + self.from;
                let (x, dy) = (&self.qkv[at..at + self.dw.len()], &self.dy[at..at + self.dw.len()]);
                for i in 0..self.dw.len() {
                    self.dw[i] = dy[i].mul_add(x[i] * scale[head], self.dw[i]);
                }
            }
        }
    }
}

/// Adds `d loss / d weight` of the heads `of` to `dw`: the sum of `dy x r` over tokens, and over the heads of a token, in their
/// order. `dy` is `d loss / d out`, before [`backward`] replaces it.
pub fn backward_weight<T: Real>(
    heads: Heads,
    of: Range<usize>,
    qkv: &[T],
    scale: &[T],
    dy: &[T],
    dw: &mut [T],
) {
    by_column(dw, scale.len(), |from, dw| {
        simd::run(BackwardWeight { heads, of: of.clone(), qkv, scale, dy, from, dw });
    });
}
