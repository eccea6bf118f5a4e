//! The difference between the log-probabilities of a sampler and a trainer that round differently.
//!
//! Such a policy is silently trained off-policy. The error of a token is the factor between its two probabilities, `e^|difference|`; 1 if they
//! agree.

/// Errors over the tokens of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mismatch {
    tokens: u64,
    sum: f64,
    max: f64,
}

impl Default for Mismatch {
    fn default() -> Self {
        Mismatch { tokens: 0, sum: 0.0, max: 1.0 }
    }
}

impl Mismatch {
    /// Default of the largest mean error with which a run continues.
    pub const LIMIT: f64 = 1.05;

    /// Adds the tokens of a response: log-probabilities in nats by sampler and trainer.
    ///
    /// # Panics
    /// If the two have different lengths.
    pub fn add(&mut self, sampled: &[f64], trained: &[f64]) {
        assert_eq!(sampled.len(), trained.len(), "one log-probability per token");
        for (a, b) in sampled.iter().zip(trained) {
            let error = (a - b).abs().exp();
            self.tokens += 1;
            self.sum += error;
            // NaN propagates.
            self.max = if error > self.max || error.is_nan() { error } else { self.max };
        }
    }

    /// Number of tokens that were added.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Mean error, at least 1; 1 without tokens, NaN where a log-probability is.
    pub fn mean(&self) -> f64 {
        if self.tokens == 0 { 1.0 } else { self.sum / self.tokens as f64 }
    }

    /// Largest error.
    pub fn max(&self) -> f64 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_the_factor_between_the_probabilities_either_way() {
        let mut mismatch = Mismatch::default();
        assert_eq!((mismatch.mean(), mismatch.max()), (1.0, 1.0));
        mismatch.add(&[-1.0, -2.0], &[-1.0 - 2f64.ln(), -2.0]);
        mismatch.add(&[-3.0], &[-3.0 + 2f64.ln()]);
        assert!((mismatch.mean() - 5.0 / 3.0).abs() < 1e-12 && (mismatch.max() - 2.0).abs() < 1e-12);
        mismatch.add(&[f64::NAN], &[0.0]);
        assert!(mismatch.mean().is_nan() && mismatch.max().is_nan());
    }
}
