//! The clipped policy objective most methods share, put together from its parts.
//!
//! ```text
//! L = sum_i sum_t  w_i,t [ l(z_i,t, delta_i,t) + beta KL_i,t ],      z = E x,   x = log pi - log pi_old
//! ```
//! A method's file chooses the parts; the arithmetic, and its gradient, is written here once.

use crate::advantage::{Delta, Outcome};
use crate::equation::{BatchSize, Equation};
use crate::group::{Group, Response};
use crate::kl::Kl;
use crate::methods::{Coupling, Credit, Loss, Method};
use crate::metrics::Metrics;
use crate::reduction::Reduction;
use crate::soft_clamp::SoftClamp;
use crate::surrogate::{LOG_RATIO_LIMIT, Region, Surrogate, exp_bounded};
use crate::trace::{Token, Trace};

/// Where the trace enters.
#[derive(Debug)]
pub enum Update {
    /// In the ratio: `z = E x` (GRPO-lambda's epsilon-trace, Algorithm 1; with [`Token`], GRPO).
    Trace(Box<dyn Trace>),
    /// In front of the loss: `l_t` of the plain token ratio is multiplied by the soft-clamped trace weight of the token
    /// (GRPO-lambda's epsilon-weight, Algorithm 2).
    Weight(Box<dyn Trace>, SoftClamp),
}

/// A clipped surrogate with a trace, a KL penalty and a reduction.
#[derive(Debug)]
pub struct Objective {
    /// Rewards to advantages.
    pub outcome: Outcome,
    /// Advantages to tokens.
    pub delta: Delta,
    /// Where the trace enters, and which.
    pub update: Update,
    /// Divide a response's policy term by the mean of its on-policy weights, so that they average 1.
    pub unit_mean: bool,
    /// The scalar loss.
    pub surrogate: Surrogate,
    /// Estimator and coefficient `beta`; `None` when there is no KL term.
    pub kl: Option<(Kl, f64)>,
    /// Weights of tokens.
    pub reduction: Reduction,
    /// Give responses that were cut off weight 0.
    pub mask_truncated: bool,
}

impl Objective {
    /// What the policy term of a response is divided by: the mean over its tokens of the weight they would have on-policy, at
    /// the log-probabilities that sampled it and advantage 1. Constant in the parameters.
    fn mass(&self, response: &Response) -> f64 {
        if !self.unit_mean {
            return 1.0;
        }
        let delta = self.delta.spread(1.0, response.len());
        let weights = match &self.update {
            Update::Trace(trace) => trace.adjoint(&delta),
            Update::Weight(trace, clamp) => {
                let soft = clamp.weights(trace.as_ref(), &response.old_logps);
                let mut weights: Vec<f64> = soft.weights.iter().zip(&delta).map(|(w, d)| w * d).collect();
                clamp.add_gradient(trace.as_ref(), &soft, &delta, &mut weights);
                weights
            }
        };
        weights.iter().sum::<f64>() / response.len() as f64
    }
}

impl Method for Objective {
    fn credit(&self, batch: &[Group]) -> Vec<Credit> {
        let rewards: Vec<_> = batch.iter().map(Group::rewards).collect();
        let outcomes = self.outcome.of_batch(&rewards);
        let responses = || batch.iter().flat_map(|g| &g.responses);
        let masked = |r: &Response| self.mask_truncated && r.truncated;
        let lengths: Vec<_> = responses().map(|r| (!masked(r)).then_some(r.len())).collect();
        let weights = self.reduction.weights(&lengths);
        let credit = |((r, a), w): ((&Response, f64), f64)| Credit {
            advantages: self.delta.spread(a, r.len()),
            weights: vec![w; r.len()],
        };
        responses().zip(outcomes.into_iter().flatten()).zip(weights).map(credit).collect()
    }

    fn loss(&self, response: &Response, credit: &Credit, logps: &[f64]) -> Loss {
        let len = response.len();
        assert!(
            logps.len() == len && credit.advantages.len() == len && credit.weights.len() == len,
            "a response of {len} tokens with {} log-probabilities, {} advantages, {} weights",
            logps.len(),
            credit.advantages.len(),
            credit.weights.len()
        );
        let x: Vec<f64> = logps.iter().zip(&response.old_logps).map(|(new, old)| new - old).collect();
        let mut metrics = Metrics { log_ratio_max: largest(&x), ..Metrics::default() };
        let (mut z, soft) = match &self.update {
            Update::Trace(trace) => (trace.apply(&x), None),
            Update::Weight(trace, clamp) => (x.clone(), Some(clamp.weights(trace.as_ref(), logps))),
        };
        // The buffer of x, no longer needed, holds exp(z), then d loss/d z. The exponentials have a loop of their own: a call
        // in the loop below would push its sums out of the registers at every token.
        let mut slopes = x;
        for (e, &z) in slopes.iter_mut().zip(&z) {
            *e = exp_bounded(z);
        }
        let share = 1.0 / self.mass(response);
        let mut values = vec![0.0; if soft.is_some() { len } else { 0 }];
        for t in 0..len {
            let weight = credit.weights[t] * share;
            if weight == 0.0 {
                slopes[t] = 0.0;
                continue;
            }
            let token = self.surrogate.at_exp(z[t], slopes[t], credit.advantages[t]);
            let front = soft.as_ref().map_or(1.0, |s| s.weights[t]);
            slopes[t] = weight * front * token.loss.slope;
            metrics.policy_loss += weight * front * token.loss.value;
            if soft.is_some() {
                values[t] = weight * token.loss.value;
            }
            metrics.tokens += 1;
            metrics.clipped_low += usize::from(token.region == Region::Low);
            metrics.clipped_high += usize::from(token.region == Region::High);
            metrics.saturated += usize::from(z[t] > LOG_RATIO_LIMIT);
            metrics.trace_log_ratio_max = metrics.trace_log_ratio_max.max(z[t].abs());
            metrics.ratio_sum += token.ratio;
        }
        let mut dlogps = match (&self.update, soft) {
            (Update::Trace(trace), _) => {
                trace.adjoint_into(&slopes, &mut z); // z, too, is no longer needed
                z
            }
            (Update::Weight(trace, clamp), Some(soft)) => {
                clamp.add_gradient(trace.as_ref(), &soft, &values, &mut slopes);
                slopes
            }
            (Update::Weight(..), None) => unreachable!("soft weights are computed for this update above"),
        };
        if let Some((kl, beta)) = self.kl {
            let reference = response.ref_logps.as_ref().expect("a KL term needs reference log-probabilities");
            for t in 0..len {
                let weight = credit.weights[t];
                if weight == 0.0 {
                    continue;
                }
                let partial = kl.at(logps[t], response.old_logps[t], reference[t]);
                metrics.kl_sum += partial.value;
                metrics.kl_loss += weight * beta * partial.value;
                dlogps[t] += weight * beta * partial.slope;
            }
        }
        Loss { value: metrics.policy_loss + metrics.kl_loss, dlogps, metrics }
    }

    fn equation(&self, size: &BatchSize) -> Option<Equation> {
        Some(self.parts(size))
    }

    fn credit_reads_tokens(&self) -> bool {
        // Rewards and lengths decide, and with `mask_truncated` whether the response was cut.
        self.mask_truncated
    }

    fn max_len(&self) -> Option<usize> {
        match &self.update {
            Update::Trace(trace) | Update::Weight(trace, _) => trace.max_len(),
        }
    }

    fn coupling(&self) -> Coupling {
        match self.reduction {
            _ if self.mask_truncated => Coupling::Everything,
            Reduction::TokenMean => Coupling::RewardsAndTotalLength,
            Reduction::PerResponse | Reduction::Constant(_) => Coupling::Rewards,
        }
    }
}

/// The largest magnitude, 0 of nothing. As bits, which without a sign are ordered like the numbers and compare faster.
fn largest(values: &[f64]) -> f64 {
    f64::from_bits(values.iter().map(|x| x.abs().to_bits()).max().unwrap_or(0))
}

/// The trace of the methods that have none.
pub fn no_trace() -> Update {
    Update::Trace(Box::new(Token))
}
