//! Critics: state values of a chosen quality, one per node.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::Oracle;
use crate::draw::normal;

/// `V(s)` plus independent normal errors of standard deviation `scale`, fixed by `seed`: an error of the critic, not noise that
/// averages out.
pub fn noisy(oracle: &Oracle, scale: f64, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    oracle.v.iter().map(|v| v + scale * normal(&mut rng)).collect()
}

/// One value everywhere; with `J` it is the critic that GRPO implies.
pub fn constant(oracle: &Oracle, value: f64) -> Vec<f64> {
    vec![value; oracle.v.len()]
}
