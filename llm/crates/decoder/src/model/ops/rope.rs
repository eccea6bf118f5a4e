//! Rotary position embedding: the pair `(x_i, x_{i + d/2})` of every query and key head is rotated by `position * frequency_i`.
//!
//! Angles and their sines are computed in `f64` and rounded once, so position 32,000 is as exact as position 1. (A table in
//! the dtype of a bf16 model rounds most positions to a neighbour's.)

use super::parallel::by_token;
use super::real::Real;
use super::simd::kernel;

/// Cosines and sines of positions `0..len`, `d/2` of each per position.
pub struct Table<T> {
    cos: Vec<T>,
    sin: Vec<T>,
    half: usize,
}

impl<T: Real> Table<T> {
    /// A table of `len` positions for these frequencies (radians per position).
    pub fn new(frequencies: &[f64], len: usize) -> Self {
        let angles = (0..len).flat_map(|p| frequencies.iter().map(move |f| p as f64 * f));
        let (cos, sin) = angles.map(|a| (T::from_f64(a.cos()), T::from_f64(a.sin()))).unzip();
        Self { cos, sin, half: frequencies.len() }
    }

    /// Number of positions.
    pub fn len(&self) -> usize {
        self.cos.len() / self.half
    }

    /// True without positions.
    pub fn is_empty(&self) -> bool {
        self.cos.is_empty()
    }
}

kernel! {
    fn turn<T: Real>(x: &mut [T], stride: usize, heads: usize, positions: &[u32], table: &Table<T>, sign: T) {
        let half = table.half;
        for (token, &p) in x.chunks_exact_mut(stride).zip(positions) {
            let at = p as usize * half;
            let (cos, sin) = (&table.cos[at..at + half], &table.sin[at..at + half]);
            for head in token[..heads * 2 * half].chunks_exact_mut(2 * half) {
                let (a, b) = head.split_at_mut(half);
                for i in 0..half {
                    let (x, y, s) = (a[i], b[i], sin[i] * sign);
                    a[i] = x * cos[i] - y * s;
                    b[i] = y * cos[i] + x * s;
                }
            }
        }
    }
}

/// Rotates the first `heads` heads of every token (`stride` numbers each) in place; `back` rotates the other way, which is the
/// backward pass, a rotation being orthogonal.
///
/// # Panics
/// When a position is outside the table.
pub fn rotate<T: Real>(
    x: &mut [T],
    stride: usize,
    heads: usize,
    positions: &[u32],
    table: &Table<T>,
    back: bool,
) {
    let sign = if back { -T::ONE } else { T::ONE };
    by_token(x, stride, |start, x| {
        let positions = &positions[start..start + x.len() / stride];
        turn(x, stride, heads, positions, table, sign);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_to_32k_is_exact() {
        let frequencies: Vec<f64> = (0..32).map(|i| 1e6f64.powf(-f64::from(i) / 32.0)).collect();
        let table = Table::<f32>::new(&frequencies, 32_768);
        for p in (0..32_768).step_by(7).chain([15_962, 32_767]) {
            for (i, f) in frequencies.iter().enumerate() {
                let angle = p as f64 * f;
                assert!((f64::from(table.cos[p * 32 + i]) - angle.cos()).abs() <= 6e-8, "cos at {p}, {i}");
                assert!((f64::from(table.sin[p * 32 + i]) - angle.sin()).abs() <= 6e-8, "sin at {p}, {i}");
            }
        }
    }
}
