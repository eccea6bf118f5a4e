//! [`Divergence`]: how far the probability of one token has moved.

/// A divergence between the two-valued distributions "this token, or another" of two policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divergence {
    /// Total variation, `|pi - pi_old|` of the token.
    TotalVariation,
    /// `pi_old log(pi_old/pi) + (1 - pi_old) log((1 - pi_old)/(1 - pi))` of the token, in nats.
    Kl,
}

/// Added to the probability of another token before logarithms are taken, as in verl.
const EPSILON: f64 = 1e-8;

impl Divergence {
    /// The divergence between log-probabilities `new` and `old` of a token.
    ///
    /// ```
    /// use grpo_lambda::surrogate::Divergence;
    /// let moved = Divergence::TotalVariation.between(0.5f64.ln(), 0.25f64.ln());
    /// assert!((moved - 0.25).abs() < 1e-15);
    /// ```
    pub fn between(self, new: f64, old: f64) -> f64 {
        let (p, q) = (new.exp(), old.exp());
        match self {
            Divergence::TotalVariation => (p - q).abs(),
            Divergence::Kl => q * (old - new) + (1.0 - q) * ((1.0 - q + EPSILON) / (1.0 - p + EPSILON)).ln(),
        }
    }

    /// `D = ..`, the divergence of a token.
    pub fn equation(self) -> &'static str {
        match self {
            Divergence::TotalVariation => "D = |pi(a_t|s_t) - pi_old(a_t|s_t)|",
            Divergence::Kl => "D = the KL divergence of pi_old from pi between this token and all others",
        }
    }
}
