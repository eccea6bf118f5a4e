//! The clipped policy objective most methods share, put together from its parts.
//!
//! ```text
//! L = sum_i sum_t  w_i,t [ f_i,t l(z_i,t, A_i,t) + beta KL_i,t ],      z, f = update(x),   x = log pi - log pi_old
//! ```
//! A method's file chooses the parts; the arithmetic, and its gradient, is written here once.

use crate::assignment::Assignment;
use crate::equation::{BatchSize, Equation};
use crate::group::{Group, Response};
use crate::kl::Kl;
use crate::methods::{Coupling, Credit, Loss, Method};
use crate::metrics::Metrics;
use crate::reduction::Reduction;
use crate::surrogate::{LOG_RATIO_LIMIT, Region, Surrogate, exp_bounded};
use crate::trace::Token;
use crate::update::{Tokens, TraceRatio, Update};

/// A clipped surrogate with a trace, a KL penalty and a reduction.
#[derive(Debug)]
pub struct Objective {
    /// Rewards and evidence to advantages.
    pub assignment: Box<dyn Assignment>,
    /// Where a trace enters, and which.
    pub update: Box<dyn Update>,
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
    fn mass(&self, response: &Response, eligible: Option<&[bool]>) -> f64 {
        if !self.unit_mean {
            return 1.0;
        }
        let old = &response.old_logps;
        let tokens = Tokens { logps: old, old, frozen: old, eligible };
        let seen = self.update.forward(&tokens);
        let values = self.assignment.profile(response.len());
        let slopes = match &seen.front {
            Some(front) => front.iter().zip(&values).map(|(f, a)| f * a).collect(),
            None => values.clone(),
        };
        let weights = self.update.backward(&tokens, seen, slopes, &values);
        weights.iter().sum::<f64>() / response.len() as f64
    }

    fn add_kl(&self, response: &Response, credit: &Credit, logps: &[f64], loss: &mut Loss) {
        let Some((kl, beta)) = self.kl else { return };
        let reference = response.ref_logps.as_ref().expect("a KL term needs reference log-probabilities");
        for t in 0..logps.len() {
            let weight = credit.weights[t];
            if weight == 0.0 {
                continue;
            }
            let partial = kl.at(logps[t], response.old_logps[t], reference[t]);
            loss.metrics.kl_sum += partial.value;
            loss.metrics.kl_loss += weight * beta * partial.value;
            loss.dlogps[t] += weight * beta * partial.slope;
        }
    }
}

impl Method for Objective {
    fn credit(&self, batch: &[Group]) -> Vec<Credit> {
        let active = |r: &Response| !(self.mask_truncated && r.truncated);
        let kept = |r: &Response| active(r).then(|| self.assignment.kept(r)).flatten();
        let mut kept: Vec<Option<Vec<bool>>> = batch.iter().flat_map(|g| &g.responses).map(kept).collect();
        let mut tokens = kept.iter().map(|k| k.as_ref().map(|k| k.iter().filter(|k| **k).count()));
        let mut length = |r: &Response| {
            let left = tokens.next().flatten();
            // A response of which no token is left is masked.
            Some(left.unwrap_or(r.len())).filter(|n| active(r) && *n > 0)
        };
        let lengths: Vec<Vec<_>> =
            batch.iter().map(|g| g.responses.iter().map(&mut length).collect()).collect();
        let active: Vec<bool> = batch.iter().flat_map(|g| &g.responses).map(active).collect();
        let weights = self.reduction.weights_of_groups(&lengths);
        let advantages = self.assignment.advantages(batch, &active);
        let mut eligible = self.update.select(batch, &active).map(Vec::into_iter);
        let credit = |((advantages, weight), kept): ((Vec<f64>, f64), &mut Option<Vec<bool>>)| Credit {
            weights: match kept.take() {
                Some(kept) => kept.into_iter().map(|kept| if kept { weight } else { 0.0 }).collect(),
                None => vec![weight; advantages.len()],
            },
            advantages,
            eligible: eligible.as_mut().and_then(Iterator::next),
        };
        advantages.into_iter().zip(weights).zip(&mut kept).map(credit).collect()
    }

    fn loss_around(&self, response: &Response, credit: &Credit, logps: &[f64], frozen: &[f64]) -> Loss {
        let len = response.len();
        assert!(
            logps.len() == len && credit.advantages.len() == len && credit.weights.len() == len,
            "a response of {len} tokens with {} log-probabilities, {} advantages, {} weights",
            logps.len(),
            credit.advantages.len(),
            credit.weights.len()
        );
        if credit.weights.iter().all(|&w| w == 0.0) {
            // Masked: what stands in its slots, be it no number, is not looked at.
            return Loss { dlogps: vec![0.0; len], ..Loss::default() };
        }
        let eligible = credit.eligible.as_deref();
        let tokens = Tokens { logps, old: &response.old_logps, frozen, eligible };
        let mut seen = self.update.forward(&tokens);
        let mut metrics = Metrics {
            log_ratio_max: largest(logps.iter().zip(&response.old_logps).map(|(new, old)| new - old)),
            clipped_low: seen.clipped.0,
            clipped_high: seen.clipped.1,
            ..Metrics::default()
        };
        // A spare buffer holds exp(z), then d loss/d z. The exponentials have a loop of their own: a call
        // in the loop below would push its sums out of the registers at every token.
        let mut slopes = std::mem::take(&mut seen.spare);
        for (e, &z) in slopes.iter_mut().zip(&seen.z) {
            *e = exp_bounded(z);
        }
        let share = 1.0 / self.mass(response, eligible);
        let mut values = vec![0.0; if seen.front.is_some() { len } else { 0 }];
        for t in 0..len {
            let weight = credit.weights[t] * share;
            if weight == 0.0 {
                slopes[t] = 0.0;
                continue;
            }
            let (z, a) = (seen.z[t], credit.advantages[t]);
            let token = match self.surrogate {
                Surrogate::Detached { .. } => {
                    self.surrogate.detached(frozen[t] - response.old_logps[t], logps[t], a).expect("detached")
                }
                _ => self.surrogate.at_exp(z, slopes[t], a),
            };
            let front = seen.front.as_ref().map_or(1.0, |f| f[t]);
            slopes[t] = weight * front * token.loss.slope;
            metrics.policy_loss += weight * front * token.loss.value;
            if seen.front.is_some() {
                values[t] = weight * token.loss.value;
            }
            let reach = seen.log_front.as_ref().map_or(0.0, |f| f[t]);
            metrics.tokens += 1;
            metrics.clipped_low += usize::from(token.region == Region::Low);
            metrics.clipped_high += usize::from(token.region == Region::High);
            metrics.saturated += usize::from(z.max(reach) > LOG_RATIO_LIMIT);
            metrics.trace_log_ratio_max = metrics.trace_log_ratio_max.max(z.abs()).max(reach.abs());
            metrics.ratio_sum += token.ratio;
        }
        let dlogps = self.update.backward(&tokens, seen, slopes, &values);
        let mut loss = Loss { value: 0.0, dlogps, metrics };
        self.add_kl(response, credit, logps, &mut loss);
        loss.value = loss.metrics.policy_loss + loss.metrics.kl_loss;
        loss
    }

    fn equation(&self, size: &BatchSize) -> Option<Equation> {
        Some(self.parts(size))
    }

    fn credit_reads_tokens(&self) -> bool {
        // With `mask_truncated` it matters whether the response was cut.
        self.mask_truncated || self.assignment.reads_tokens() || self.update.reads_tokens()
    }

    fn compares_rewards(&self) -> bool {
        self.assignment.compares()
    }

    fn max_len(&self) -> Option<usize> {
        self.update.max_len()
    }

    fn coupling(&self) -> Coupling {
        let reduction = match self.reduction {
            _ if self.mask_truncated => Coupling::Everything,
            Reduction::TokenMean | Reduction::GroupTokenMean => Coupling::RewardsAndTotalLength,
            Reduction::PerResponse | Reduction::Constant(_) => Coupling::Rewards,
        };
        reduction.max(self.assignment.coupling()).max(self.update.coupling())
    }
}

/// The largest magnitude, 0 of nothing. As bits, which without a sign are ordered like the numbers and compare faster.
fn largest(values: impl Iterator<Item = f64>) -> f64 {
    f64::from_bits(values.map(|x| x.abs().to_bits()).max().unwrap_or(0))
}

/// The update of the methods that have no trace.
pub fn no_trace() -> Box<dyn Update> {
    Box::new(TraceRatio(Box::new(Token)))
}
