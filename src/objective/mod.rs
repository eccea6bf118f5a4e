//! The clipped policy objective most methods share, put together from its parts.
//!
//! ```text
//! L = sum_i sum_t  w_i,t [ u_i,t f_i,t l(z_i,t, A_i,t) + beta KL_i,t ],      z, f = ratio(x),   x = log pi - log pi_old
//! ```
//! A method's file chooses the parts; the arithmetic, and its gradient, is written here once.

mod correction;
mod loss;
mod rejection;

pub use correction::{Correction, Unit};
pub use rejection::{Distance, Estimate, OffPolicyMask, Rejection};

use crate::assignment::{Assignment, counted, masked};
use crate::equation::{BatchSize, Equation, number};
use crate::group::{Group, Response};
use crate::kl::Kl;
use crate::method::{Coupling, Credit, Loss, Method, TokenTerm};
use crate::ratio::{PolicyRatio, TraceRatio};
use crate::reduction::Reduction;
use crate::surrogate::Surrogate;
use crate::trace::Token;

/// A clipped surrogate with a trace, a KL penalty and a reduction.
#[derive(Debug)]
pub struct Objective {
    /// Rewards and extra inputs to advantages.
    pub assignment: Box<dyn Assignment>,
    /// The policy ratio that the surrogate sees: where a trace enters, and which.
    pub ratio: Box<dyn PolicyRatio>,
    /// Divide a response's policy term by the mean of its on-policy weights, so that they average 1.
    pub unit_mean: bool,
    /// The loss of a token as a function of its ratio.
    pub surrogate: Surrogate,
    /// Estimator and coefficient `beta`; `None` when there is no KL term.
    pub kl: Option<(Kl, f64)>,
    /// The reduction of token losses to one number.
    pub reduction: Reduction,
    /// Give responses that were cut off weight 0.
    pub mask_truncated: bool,
    /// The correction of the sampler's mismatch; `None` where the sampler computes what the trainer computes.
    pub correction: Option<Correction>,
    /// The rejection of tokens or responses by their distance from the sampler.
    pub rejection: Option<Rejection>,
    /// The mask of responses of negative advantage that the policy has moved away from.
    pub off_policy: Option<OffPolicyMask>,
}

impl Objective {
    /// The ratio of each token, without a trace, a KL term, a mask or a correction.
    pub fn new(
        assignment: impl Assignment + 'static,
        surrogate: Surrogate,
        reduction: Reduction,
    ) -> Objective {
        Objective {
            assignment: Box::new(assignment),
            ratio: Box::new(TraceRatio(Box::new(Token))),
            unit_mean: false,
            surrogate,
            kl: None,
            reduction,
            mask_truncated: false,
            correction: None,
            rejection: None,
            off_policy: None,
        }
    }

    /// True for every token of a response that the assignment, the correction and the rejection keep; none where they keep all.
    fn kept(&self, response: &Response) -> Option<Vec<bool>> {
        let both = |a: Vec<bool>, b: Vec<bool>| a.into_iter().zip(b).map(|(a, b)| a && b).collect();
        let all = [
            self.assignment.kept(response),
            self.correction.and_then(|correction| correction.kept(response)),
            self.rejection.map(|rejection| rejection.kept(response)),
        ];
        all.into_iter().flatten().reduce(both)
    }

    /// The credit of a batch with the method's own advantages, or with those given, which its mask and its trace's choice of tokens hold for, too.
    fn credit_with(&self, batch: &[Group], given: Option<Vec<Vec<f64>>>) -> Vec<Credit> {
        let responses: Vec<&Response> = batch.iter().flat_map(|g| &g.responses).collect();
        // A response without a trained token counts with its reward alone, as a masked one does.
        let weighs = |r: &&Response| !(r.is_empty() || self.mask_truncated && r.truncated);
        let active: Vec<bool> = responses.iter().map(weighs).collect();
        let kept = |(r, &active): (&&Response, &bool)| active.then(|| self.kept(r)).flatten();
        let kept: Vec<Option<Vec<bool>>> = responses.iter().zip(&active).map(kept).collect();
        // The tokens of a response that weigh; none where it is masked, and where no token of it is left.
        let weighing = |i: usize| {
            let left = kept[i].as_ref().map_or(responses[i].len(), |k| k.iter().filter(|k| **k).count());
            Some(left).filter(|left| active[i] && *left > 0)
        };
        let mut flat = 0..responses.len();
        let lengths_of = |g: &Group| flat.by_ref().take(g.responses.len()).map(weighing).collect();
        let lengths: Vec<Vec<Option<usize>>> = batch.iter().map(lengths_of).collect();
        let weights = self.reduction.weights_of_groups(&lengths);
        // Advantages that are given need no reward.
        let (advantages, counts) = match given {
            Some(given) => (masked(given, self.assignment.mask(batch, &active)), active),
            None => (
                self.assignment.advantages(batch, &active),
                counted(batch, &active).map(|(_, counts)| counts).collect(),
            ),
        };
        let mut eligible = self.ratio.select(batch, &counts).map(Vec::into_iter);
        let credit = |((advantages, weight), kept): ((Vec<f64>, f64), Option<Vec<bool>>)| Credit {
            weights: match kept {
                Some(kept) => kept.into_iter().map(|kept| if kept { weight } else { 0.0 }).collect(),
                None => vec![weight; advantages.len()],
            },
            advantages,
            eligible: eligible.as_mut().and_then(Iterator::next),
        };
        advantages.into_iter().zip(weights).zip(kept).map(credit).collect()
    }
}

impl Method for Objective {
    fn credit(&self, batch: &[Group]) -> Vec<Credit> {
        self.credit_with(batch, None)
    }

    fn credit_given(&self, batch: &[Group], advantages: Vec<Vec<f64>>) -> Vec<Credit> {
        self.credit_with(batch, Some(advantages))
    }

    fn token_losses(&self, response: &Response, credit: &Credit, logps: &[f64]) -> Vec<f64> {
        self.token_terms(response, credit, logps).into_iter().map(|term| term.loss).collect()
    }

    fn token_terms(&self, response: &Response, credit: &Credit, logps: &[f64]) -> Vec<TokenTerm> {
        loss::of_tokens(self, response, credit, logps)
    }

    fn loss_around(&self, response: &Response, credit: &Credit, logps: &[f64], frozen: &[f64]) -> Loss {
        loss::of_response(self, response, credit, logps, frozen)
    }

    fn equation(&self, size: &BatchSize) -> Option<Equation> {
        let policy = match (self.unit_mean, self.correction.is_some()) {
            (false, false) => "l_t",
            (true, false) => "l_t / m_i",
            (false, true) => "u_t l_t",
            (true, true) => "u_t l_t / m_i",
        };
        let kl = self.kl.map_or(String::new(), |(_, beta)| format!(" + {} kl_t", number(beta)));
        let mut parts = vec![
            ("minimise", format!("L = sum_i w_i sum_t ( {policy}{kl} )")),
            ("weight", self.reduction.equation(size)),
        ];
        if self.mask_truncated {
            parts.push(("masked", "w_i = 0 for a response that was cut off".to_owned()));
        }
        parts.extend(self.correction.map(|correction| correction.equation()));
        parts.extend(self.rejection.map(|rejection| rejection.equation()));
        parts.extend(self.off_policy.map(|mask| mask.equation()));
        parts.extend(self.ratio.equation(&self.surrogate.equation()));
        if self.unit_mean {
            let mean = "m_i = the mean weight of the response's tokens on-policy, so that they average 1";
            parts.push(("mean", mean.to_owned()));
        }
        parts.extend(self.assignment.equation("delta_t"));
        match self.kl {
            Some((kl, _)) => parts.push(("KL", kl.equation().to_owned())),
            None => parts.push(("KL", "none: beta = 0".to_owned())),
        }
        Some(Equation { parts })
    }

    fn credit_reads_tokens(&self) -> bool {
        // With `mask_truncated` it matters whether the response was cut.
        self.mask_truncated
            || self.correction.is_some()
            || self.rejection.is_some()
            || self.off_policy.is_some()
            || self.assignment.reads_tokens()
            || self.ratio.reads_tokens()
    }

    fn weights_read_old_logps(&self) -> bool {
        self.rejection.is_some()
            || self.correction.is_some_and(|correction| correction.masked && correction.leaves)
    }

    fn compares_rewards(&self) -> bool {
        // The pull of the quadratic loss is there without any advantage.
        let pulls = matches!(self.surrogate, Surrogate::Quadratic { beta } if beta != 0.0);
        self.assignment.compares() && !pulls
    }

    fn needs_others(&self) -> bool {
        self.assignment.needs_others()
    }

    fn selects_tokens(&self) -> bool {
        self.ratio.select(&[], &[]).is_some()
    }

    fn max_len(&self) -> Option<usize> {
        self.ratio.max_len()
    }

    fn coupling(&self) -> Coupling {
        let reduction = match self.reduction {
            _ if self.mask_truncated || self.weights_read_old_logps() => Coupling::Everything,
            Reduction::TokenMean | Reduction::GroupTokenMean => Coupling::RewardsAndTotalLength,
            Reduction::PerResponse | Reduction::Constant(_) => Coupling::Rewards,
        };
        reduction.max(self.assignment.coupling()).max(self.ratio.coupling())
    }
}
