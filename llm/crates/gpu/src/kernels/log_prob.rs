//! Log-probabilities over a vocabulary and their gradient.

use super::launch::kernel;
use crate::ptr::Real;

/// Threads of a block that reads a row of logits.
pub(super) const VOCABULARY: u32 = 1024;

kernel! {
    /// Four numbers of every token: the log-probability of its target, the entropy, the largest tempered logit, and the logarithm of the sum
    /// of exponentials above it.
    LogProb "log_prob" {
        read logits: f32[tokens, vocabulary],
        read targets: u32[tokens],
        write out: f32[tokens, 4],
        size tokens: u32,
        pass vocabulary: u32,
        pass inverse_temperature: f32,
        /// False for entropies of 0.
        pass entropy: bool,
    }
    threads VOCABULARY; grid (tokens, 1);
}

kernel! {
    /// `dlogits = (slope ((j = target) - p_j) - entropy_slope p_j (ln p_j + H)) / temperature`.
    LogProbBackward "log_prob_backward" {
        read logits: f32[tokens, vocabulary],
        read targets: u32[tokens],
        /// From [`LogProb`].
        read saved: f32[tokens, 4],
        /// The gradient of the loss with respect to the log-probabilities.
        read slopes: f32[tokens],
        /// The gradient with respect to the entropies, which `saved` must have then.
        read entropy_slopes: f32[tokens] or null,
        write dlogits: Real[tokens, vocabulary],
        size tokens: u32,
        pass vocabulary: u32,
        pass inverse_temperature: f32,
    }
    threads VOCABULARY; grid (tokens, 1);
}
