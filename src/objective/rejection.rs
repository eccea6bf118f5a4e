//! Tokens and responses that leave an objective because the sampler and the policy disagree about them.

use super::correction::LIMIT;
use crate::assignment::needed;
use crate::equation::{Part, number};
use crate::group::Response;

/// The distance of the trained policy from the sampler that a [`Rejection`] bounds: an estimate per token, or one number per response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// `k1`, `k2` or `k3` of each token.
    Token(Estimate),
    /// Their sum over a response.
    Sum(Estimate),
    /// Their mean over a response.
    Mean(Estimate),
    /// The largest of a response.
    Max(Estimate),
}

/// An estimate of the divergence from one token's log-ratio `x = log pi_old - log pi_sampler`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    /// `-x`.
    K1,
    /// `x^2 / 2`.
    K2,
    /// `e^x - 1 - x`.
    K3,
}

impl Estimate {
    fn at(self, x: f64) -> f64 {
        match self {
            Estimate::K1 => -x,
            Estimate::K2 => 0.5 * x * x,
            Estimate::K3 => x.exp_m1() - x,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Estimate::K1 => "-y_t",
            Estimate::K2 => "y_t^2 / 2",
            Estimate::K3 => "exp(y_t) - 1 - y_t",
        }
    }
}

impl Distance {
    /// The distance of every token of a response; that of the response at each of its tokens, where it has one.
    ///
    /// # Panics
    /// If the response has no `sampler_logps`.
    pub fn of_tokens(self, response: &Response) -> Vec<f64> {
        let sampler = needed(&response.extra_inputs.sampler_logps, "sampler_logps");
        let ratios = response.old_logps.iter().zip(sampler).map(|(old, s)| (old - s).clamp(-LIMIT, LIMIT));
        let (Distance::Token(of) | Distance::Sum(of) | Distance::Mean(of) | Distance::Max(of)) = self;
        let tokens: Vec<f64> = ratios.map(|x| of.at(x)).collect();
        let whole = match self {
            Distance::Token(_) => return tokens,
            Distance::Sum(_) => tokens.iter().sum(),
            Distance::Mean(_) => tokens.iter().sum::<f64>() / tokens.len() as f64,
            Distance::Max(_) => tokens.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        vec![whole; tokens.len()]
    }
}

/// Rejection: tokens, or whole responses, whose distance lies outside the bounds have no part in the loss, its KL term and its divisors.
///
/// Source: verl `rollout_rs`, whose bounds of `k1` are ratios: `log low <= k1 <= log high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rejection {
    /// The bounded distance.
    pub distance: Distance,
    /// Smallest distance that is kept.
    pub low: f64,
    /// Largest distance that is kept.
    pub high: f64,
}

impl Rejection {
    /// True for every token that is kept.
    ///
    /// # Panics
    /// If the response has no `sampler_logps`.
    pub fn kept(&self, response: &Response) -> Vec<bool> {
        let inside = |d: &f64| (self.low..=self.high).contains(d);
        self.distance.of_tokens(response).iter().map(inside).collect()
    }

    /// The condition in words.
    pub fn equation(&self) -> Part {
        let (span, of) = match self.distance {
            Distance::Token(of) => ("of the token", of),
            Distance::Sum(of) => ("summed over the response", of),
            Distance::Mean(of) => ("on average over the response", of),
            Distance::Max(of) => ("at most over the response", of),
        };
        let bounds = match self.low {
            f64::NEG_INFINITY => format!("exceeds {}", number(self.high)),
            low => format!("lies outside [{}, {}]", number(low), number(self.high)),
        };
        let text = format!(
            "tokens leave loss and divisor where {} {span} {bounds}; y_t = log pi_old(a_t|s_t) - log pi_sampler(a_t|s_t)",
            of.words()
        );
        ("rejection", text)
    }
}

/// The mask of responses that the policy has moved away from: those of negative advantage whose mean log-ratio of the sampler to the current policy
/// exceeds a bound have no policy loss. They keep their KL term and their place in every divisor.
///
/// ```text
/// l_t = 0 where A_t < 0 and (1/T) sum_k (log pi_sampler - log pi)(a_k|s_k) > bound
/// ```
/// The sampler is `pi_old` where it reports no log-probabilities of its own. Source: DeepSeek-V3.2; TRL `off_policy_mask_threshold`, slime `use_opsm`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OffPolicyMask {
    /// Largest mean log-ratio at which the response is kept.
    pub bound: f64,
}

impl OffPolicyMask {
    /// Multiplies the weight of every token by 0 where the mask drops it, at the current log-probabilities `logps`.
    pub fn apply(&self, response: &Response, advantages: &[f64], logps: &[f64], weights: &mut [f64]) {
        let sampler = response.extra_inputs.sampler_logps.as_ref().unwrap_or(&response.old_logps);
        let total: f64 = sampler.iter().zip(logps).map(|(sampler, logp)| sampler - logp).sum();
        if total / logps.len() as f64 > self.bound {
            let dropped = weights.iter_mut().zip(advantages).filter(|(_, a)| **a < 0.0);
            dropped.for_each(|(weight, _)| *weight = 0.0);
        }
    }

    /// The condition in words.
    pub fn equation(&self) -> Part {
        let text = format!(
            "l_t = 0 where delta_t < 0 and the mean of log pi_sampler(a_k|s_k) - log pi(a_k|s_k) over the response exceeds {}",
            number(self.bound)
        );
        ("off-policy mask", text)
    }
}
