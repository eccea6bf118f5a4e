//! The correction of the mismatch between the engine that sampled and the policy that is trained.

use crate::assignment::needed;
use crate::equation::{Part, number};
use crate::group::Response;

/// The span of one importance weight, and the rule for its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A token's own ratio.
    Token,
    /// The product of the ratios of a response, the same for all its tokens.
    Sequence,
    /// A token's own ratio, in responses whose geometric mean of ratios lies inside the bounds.
    TokenInSequence,
}

/// A truncated (TIS) or masked (MIS, IcePop) importance weight of the sampler's mismatch: what the policy loss of a token is multiplied by.
///
/// ```text
/// u_t = pi_old(a_t|s_t) / pi_sampler(a_t|s_t)         held constant; log-ratios are cut at 20 nats
/// truncated: min(max(u, low), high)                   masked: u where low <= u <= high, else 0
/// ```
/// The KL term is not multiplied. The weight is taken when the loss is, not with the credit: `old_logps` may then be the trainer's own
/// ([`Policy::recomputes_old_logps`](crate::learner::Policy::recomputes_old_logps)).
///
/// Source: TRL `vllm_importance_sampling_mode`, verl `rollout_is` and IcePop, OpenRLHF and NeMo-RL `seq-mask-tis`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correction {
    /// The span of one weight.
    pub unit: Unit,
    /// True if a weight outside the bounds becomes 0 instead of the nearest bound.
    pub masked: bool,
    /// Smallest weight, at least 0.
    pub low: f64,
    /// Largest weight, at least `low`.
    pub high: f64,
    /// True if what a mask rejects leaves the KL term and the divisors, too (slime, AReaL, ROLL); else it stays in both (TRL, NeMo-RL).
    pub leaves: bool,
}

/// Largest log-ratio of a token or of a response, in nats.
pub(super) const LIMIT: f64 = 20.0;

impl Correction {
    /// The weight of every token of a response.
    ///
    /// # Panics
    /// If the response has no `sampler_logps`.
    pub fn weights(&self, response: &Response) -> Vec<f64> {
        let sampler = needed(&response.extra_inputs.sampler_logps, "sampler_logps");
        let ratios: Vec<f64> = response.old_logps.iter().zip(sampler).map(|(old, s)| old - s).collect();
        let bounded = |log_ratio: f64| log_ratio.clamp(-LIMIT, LIMIT).exp();
        let total: f64 = ratios.iter().sum();
        match self.unit {
            Unit::Token => ratios.iter().map(|&x| self.limited(bounded(x))).collect(),
            Unit::Sequence => vec![self.limited(bounded(total)); ratios.len()],
            Unit::TokenInSequence => {
                let kept = self.contains(bounded(total / ratios.len() as f64));
                ratios.iter().map(|&x| if kept { bounded(x) } else { 0.0 }).collect()
            }
        }
    }

    /// True for every token that stays in the loss and its divisors; none where all do.
    ///
    /// # Panics
    /// If the response has no `sampler_logps`.
    pub fn kept(&self, response: &Response) -> Option<Vec<bool>> {
        (self.masked && self.leaves).then(|| self.weights(response).iter().map(|w| *w != 0.0).collect())
    }

    fn contains(&self, weight: f64) -> bool {
        (self.low..=self.high).contains(&weight)
    }

    fn limited(&self, weight: f64) -> f64 {
        if self.contains(weight) {
            weight
        } else if self.masked {
            0.0
        } else {
            weight.clamp(self.low, self.high)
        }
    }

    /// `u_t = ..`.
    pub fn equation(&self) -> Part {
        const TOKEN: &str = "pi_old(a_t|s_t) / pi_sampler(a_t|s_t)";
        let (low, high) = (number(self.low), number(self.high));
        let raw = match self.unit {
            Unit::Token | Unit::TokenInSequence => TOKEN.to_owned(),
            Unit::Sequence => "prod_k pi_old(a_k|s_k) / pi_sampler(a_k|s_k)".to_owned(),
        };
        let text = match (self.unit, self.masked) {
            (Unit::TokenInSequence, _) => {
                format!("u_t = {raw} in responses whose geometric mean of it lies in [{low}, {high}], else 0")
            }
            (_, true) => format!("u_t = {raw} where that lies in [{low}, {high}], else 0"),
            (_, false) => format!("u_t = clip({raw}, {low}, {high})"),
        };
        let rejected =
            if self.masked && self.leaves { "; tokens with u_t = 0 leave loss and divisor" } else { "" };
        ("correction", format!("{text}; held constant{rejected}"))
    }
}
