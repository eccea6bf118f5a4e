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

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn normal_numbers_have_mean_0_and_variance_1() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let n = 100_000;
        let draws: Vec<f64> = (0..n).map(|_| normal(&mut rng)).collect();
        let mean = draws.iter().sum::<f64>() / n as f64;
        let variance = draws.iter().map(|x| x * x).sum::<f64>() / n as f64 - mean * mean;
        assert!(mean.abs() < 0.015 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }
}
