//! Metrics of a loss evaluation next to its value: sums and maxima that merge across responses and micro-batches.

/// Counts, sums and maxima over unmasked tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Tokens with non-zero weight.
    pub tokens: usize,
    /// Tokens whose loss sits on the lower clip bound: no gradient.
    pub clipped_low: usize,
    /// Tokens whose loss sits on the upper clip bound (or the two-sided cap): no gradient.
    pub clipped_high: usize,
    /// Tokens whose (trace) log-ratio exceeds [`LOG_RATIO_LIMIT`](crate::surrogate::LOG_RATIO_LIMIT): `exp` continued by its tangent.
    pub saturated: usize,
    /// Largest `|log pi - log pi_old|` of a token.
    pub log_ratio_max: f64,
    /// Largest `|z_t|` of a trace log-ratio (the token's own without a trace).
    pub trace_log_ratio_max: f64,
    /// Sum over tokens of the trace ratio `exp(z_t)`.
    pub ratio_sum: f64,
    /// Sum over tokens of the KL estimate; 0 when the coefficient is 0.
    pub kl_sum: f64,
    /// The policy term's share of the loss.
    pub policy_loss: f64,
    /// The KL term's share of the loss, coefficient included.
    pub kl_loss: f64,
    /// Groups seen.
    pub groups: usize,
    /// Groups whose known rewards are all equal: under a baseline of the group they have no advantage.
    pub zero_variance_groups: usize,
    /// Responses without a reward.
    pub ungraded: usize,
}

impl Metrics {
    /// Adds another evaluation's metrics to this one.
    pub fn merge(&mut self, other: &Metrics) {
        self.tokens += other.tokens;
        self.clipped_low += other.clipped_low;
        self.clipped_high += other.clipped_high;
        self.saturated += other.saturated;
        self.log_ratio_max = self.log_ratio_max.max(other.log_ratio_max);
        self.trace_log_ratio_max = self.trace_log_ratio_max.max(other.trace_log_ratio_max);
        self.ratio_sum += other.ratio_sum;
        self.kl_sum += other.kl_sum;
        self.policy_loss += other.policy_loss;
        self.kl_loss += other.kl_loss;
        self.groups += other.groups;
        self.zero_variance_groups += other.zero_variance_groups;
        self.ungraded += other.ungraded;
    }

    /// Mean KL estimate of a token.
    pub fn kl(&self) -> f64 {
        self.per_token(self.kl_sum)
    }

    /// Mean trace ratio of a token.
    pub fn ratio_mean(&self) -> f64 {
        self.per_token(self.ratio_sum)
    }

    /// `exp` of the largest absolute log-ratio of a token (so 2 means "doubled or halved"), capped at the largest finite number.
    pub fn ratio_max(&self) -> f64 {
        capped_exp(self.log_ratio_max)
    }

    /// [`Metrics::ratio_max`] of the trace log-ratios.
    pub fn trace_ratio_max(&self) -> f64 {
        capped_exp(self.trace_log_ratio_max)
    }

    /// Fraction of tokens clipped at the lower bound.
    pub fn clip_fraction_low(&self) -> f64 {
        self.per_token(self.clipped_low as f64)
    }

    /// Fraction of tokens clipped at the upper bound.
    pub fn clip_fraction_high(&self) -> f64 {
        self.per_token(self.clipped_high as f64)
    }

    /// Fraction of tokens whose `exp` was continued by its tangent.
    pub fn saturated_fraction(&self) -> f64 {
        self.per_token(self.saturated as f64)
    }

    fn per_token(&self, x: f64) -> f64 {
        if self.tokens == 0 { 0.0 } else { x / self.tokens as f64 }
    }

    /// Name and value of everything worth logging, sums turned into means and counts into fractions of tokens.
    pub fn entries(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("tokens", self.tokens as f64),
            ("policy_loss", self.policy_loss),
            ("kl_loss", self.kl_loss),
            ("kl", self.kl()),
            ("ratio_mean", self.ratio_mean()),
            ("ratio_max", self.ratio_max()),
            ("trace_ratio_max", self.trace_ratio_max()),
            ("clip_fraction_low", self.clip_fraction_low()),
            ("clip_fraction_high", self.clip_fraction_high()),
            ("saturated_fraction", self.saturated_fraction()),
            ("groups", self.groups as f64),
            ("zero_variance_groups", self.zero_variance_groups as f64),
            ("ungraded", self.ungraded as f64),
        ]
    }
}

fn capped_exp(log_ratio: f64) -> f64 {
    log_ratio.exp().min(f64::MAX)
}
