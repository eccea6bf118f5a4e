//! Random weights of any size, made in chunks: for measuring a shape whose weights are not at hand.

use grpo_lambda_decoder::device::DeviceError;
use grpo_lambda_decoder::model::weights::fnv;
use rayon::prelude::*;

use super::ptr::Float;
use super::weights::Tensors;

/// Numbers made at a time.
const CHUNK: usize = 1 << 22;

/// Fills tensors with numbers that depend on seed, name and place alone: norms with 1, biases with 0, all others uniform with mean 0
/// and this standard deviation. Tensors of another dtype get the same numbers, rounded.
///
/// # Errors
/// Errors if the device fails.
pub fn fill<T: Float>(tensors: &Tensors<T>, seed: u64, deviation: f32) -> Result<(), DeviceError> {
    for (name, tensor) in tensors.flat().tensors() {
        let key = seed ^ fnv(name);
        let number = |i: u64| match name {
            _ if name.ends_with("norm.weight") => 1.0,
            _ if name.ends_with(".bias") => 0.0,
            _ => deviation * uniform(key, i),
        };
        for start in (0..tensor.elements()).step_by(CHUNK) {
            let chunk = start as u64..tensor.elements().min(start + CHUNK) as u64;
            let numbers: Vec<f32> = chunk.into_par_iter().map(number).collect();
            tensors.write_from(tensor.offset as usize + start, &numbers)?;
        }
    }
    Ok(())
}

/// Uniform with mean 0 and variance 1: number `i` of the sequence SplitMix64 gives for this key.
pub(super) fn uniform(key: u64, i: u64) -> f32 {
    let mut z = key.wrapping_add(i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    // 24 bits, centred.
    let unit = ((z >> 40) as f32 + 0.5) / (1u32 << 24) as f32;
    (2.0 * unit - 1.0) * 3f32.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_have_mean_0_and_variance_1_and_do_not_repeat() {
        let n = 40_000;
        let numbers: Vec<f64> = (0..n).map(|i| f64::from(uniform(7, i))).collect();
        let moment = |k: i32| numbers.iter().map(|x| x.powi(k)).sum::<f64>() / n as f64;
        for (k, want, error) in [(1, 0.0, 0.02), (2, 1.0, 0.02), (3, 0.0, 0.04), (4, 1.8, 0.04)] {
            assert!((moment(k) - want).abs() < error, "moment {k}: {}", moment(k));
        }
        let neighbours = numbers.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / n as f64;
        assert!(neighbours.abs() < 0.02, "{neighbours}");
        assert_ne!(uniform(7, 0), uniform(8, 0));
    }
}
