//! How far the sampler's log-probabilities are from the trainer's for the same weights.
//!
//! On the CPU they are equal to the bit. On a device sampler and trainer sum in different orders and round activations to the dtype
//! in between, so they differ by rounding; more than that means that training is off-policy without saying so.

/// Differences `d = sampled - trained` of log-probabilities, over all tokens of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Drift {
    /// Tokens compared.
    pub tokens: usize,
    /// Mean of `|d|`, in nats.
    pub mean_abs: f64,
    /// Largest `|d|`, in nats.
    pub max_abs: f64,
    /// Mean of `e^|d|`: by how much a token's probability is off. Above 1.05 runs are known to go wrong.
    pub mean_ratio: f64,
    /// Largest `e^|d|`.
    pub max_ratio: f64,
    /// Response, in flat order, and token of the largest.
    pub worst: (usize, usize),
}

/// Compares row by row. A number that is NaN on either side counts as infinitely far.
///
/// # Panics
/// When the two have not the same shape.
///
/// ```
/// use grpo_lambda_llm::gpu::drift::drift;
/// let found = drift(&[vec![-1.0], vec![-2.0, -0.5]], &[vec![-1.0], vec![-1.5, -0.75]]);
/// assert_eq!((found.tokens, found.mean_abs, found.max_abs, found.worst), (3, 0.25, 0.5, (1, 0)));
/// assert_eq!(found.max_ratio, 0.5f64.exp());
/// ```
pub fn drift(sampled: &[Vec<f64>], trained: &[Vec<f64>]) -> Drift {
    assert_eq!(sampled.len(), trained.len(), "responses");
    let mut found = Drift { mean_ratio: 1.0, max_ratio: 1.0, ..Drift::default() };
    let (mut sum, mut ratios) = (0.0, 0.0);
    for (i, (sampled, trained)) in sampled.iter().zip(trained).enumerate() {
        assert_eq!(sampled.len(), trained.len(), "tokens of response {i}");
        for (t, (a, b)) in sampled.iter().zip(trained).enumerate() {
            let apart = if a == b { 0.0 } else { (a - b).abs() };
            let apart = if apart.is_nan() { f64::INFINITY } else { apart };
            found.tokens += 1;
            sum += apart;
            ratios += apart.exp();
            if apart > found.max_abs {
                (found.max_abs, found.worst) = (apart, (i, t));
            }
        }
    }
    if found.tokens > 0 {
        found.mean_abs = sum / found.tokens as f64;
        found.mean_ratio = ratios / found.tokens as f64;
        found.max_ratio = found.max_abs.exp();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_numbers_do_not_drift_and_nan_is_infinitely_far() {
        let rows = vec![vec![-1.0, f64::NEG_INFINITY], vec![]];
        let none = drift(&rows, &rows);
        assert_eq!((none.tokens, none.max_abs, none.mean_ratio, none.max_ratio), (2, 0.0, 1.0, 1.0));
        assert_eq!(drift(&[], &[]).max_ratio, 1.0);
        let broken = drift(&[vec![-1.0, f64::NAN]], &[vec![-1.0, -2.0]]);
        assert_eq!((broken.max_abs, broken.max_ratio, broken.worst), (f64::INFINITY, f64::INFINITY, (0, 1)));
    }

    #[test]
    fn the_mean_ratio_is_the_mean_of_ratios() {
        let found = drift(&[vec![2f64.ln(), 0.0]], &[vec![0.0, 0.0]]);
        assert!((found.mean_ratio - 1.5).abs() < 1e-15 && (found.max_ratio - 2.0).abs() < 1e-15);
    }
}
