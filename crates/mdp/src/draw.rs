//! Uniform and normal numbers from a stream of bits, written out so that a seed means the same numbers for
//! ever.

use rand::Rng;

/// Uniform in `[0,1)`, a multiple of `2^-53`.
pub(super) fn unit(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Uniform in `0..n`, `n >= 1`; the bias of at most `n / 2^53` is far below anything sampled here.
pub(super) fn below(n: usize, rng: &mut impl Rng) -> usize {
    (unit(rng) * n as f64) as usize
}

/// Standard normal (Box-Muller, one of the pair).
pub(super) fn normal(rng: &mut impl Rng) -> f64 {
    let radius = (-2.0 * (1.0 - unit(rng)).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(rng)).cos()
}
