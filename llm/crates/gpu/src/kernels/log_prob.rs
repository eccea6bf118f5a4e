//! Log-probabilities over a vocabulary and their gradient.

use super::launch::Kernel;
use crate::ptr::{Arg, Ptr, PtrMut, Real};

/// Threads of a block that reads a row of logits.
pub(super) const VOCABULARY: u32 = 1024;

/// Four numbers of every token: log-probability of its target, entropy (0 unless asked for), the largest tempered logit, and the
/// logarithm of the sum of exponentials above it.
#[derive(Clone, Copy, Debug)]
pub struct LogProb {
    /// `[tokens, vocabulary]`.
    pub logits: Ptr<f32>,
    /// `[tokens]`.
    pub targets: Ptr<u32>,
    /// `[tokens, 4]`.
    pub out: PtrMut<f32>,
    /// Rows.
    pub tokens: u32,
    /// Elements of a row of logits.
    pub vocabulary: u32,
    /// `1 / temperature`.
    pub inverse_temperature: f32,
    /// Whether entropies are asked for.
    pub entropy: bool,
}

impl Kernel for LogProb {
    const NAME: &'static str = "log_prob";
    const BLOCK: u32 = VOCABULARY;

    fn grid(&self) -> (u32, u32) {
        (self.tokens, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.logits.into(),
            self.targets.into(),
            self.out.into(),
            self.vocabulary.into(),
            self.inverse_temperature.into(),
            self.entropy.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let tokens = self.tokens as usize;
        self.logits.bytes(tokens * self.vocabulary as usize)
            + self.targets.bytes(tokens)
            + self.out.bytes(4 * tokens)
    }
}

/// `dlogits = slope ((j = target) - p_j) / temperature`.
#[derive(Clone, Copy, Debug)]
pub struct LogProbBackward {
    /// `[tokens, vocabulary]`.
    pub logits: Ptr<f32>,
    /// `[tokens]`.
    pub targets: Ptr<u32>,
    /// `[tokens, 4]`, from [`LogProb`].
    pub saved: Ptr<f32>,
    /// `[tokens]`: the gradient of the loss with respect to the log-probabilities.
    pub slopes: Ptr<f32>,
    /// `[tokens, vocabulary]`.
    pub dlogits: PtrMut<Real>,
    /// Rows.
    pub tokens: u32,
    /// Elements of a row of logits.
    pub vocabulary: u32,
    /// `1 / temperature`.
    pub inverse_temperature: f32,
}

impl Kernel for LogProbBackward {
    const NAME: &'static str = "log_prob_backward";
    const BLOCK: u32 = VOCABULARY;

    fn grid(&self) -> (u32, u32) {
        (self.tokens, 1)
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            self.logits.into(),
            self.targets.into(),
            self.saved.into(),
            self.slopes.into(),
            self.dlogits.into(),
            self.vocabulary.into(),
            self.inverse_temperature.into(),
        ]
    }

    fn bytes(&self) -> f64 {
        let (tokens, n) = (self.tokens as usize, self.tokens as usize * self.vocabulary as usize);
        self.logits.bytes(n)
            + self.dlogits.bytes(n)
            + self.targets.bytes(tokens)
            + self.saved.bytes(5 * tokens)
    }
}
