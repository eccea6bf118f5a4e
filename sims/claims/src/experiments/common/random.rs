//! Seeded numbers.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The generator of a run's stream `stream`.
pub(crate) fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

/// A number in `(-1, 1)` on a grid of 2^-31.
pub(crate) fn symmetric(rng: &mut ChaCha8Rng) -> f64 {
    f64::from(rng.next_u32()) / f64::from(1u32 << 31) - 1.0
}

/// `n` such numbers.
pub(crate) fn noise(rng: &mut ChaCha8Rng, n: usize) -> Vec<f64> {
    (0..n).map(|_| symmetric(rng)).collect()
}
