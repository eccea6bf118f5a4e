//! The clipped policy objective most methods share, put together from its parts.
//!
//! ```text
//! L = sum_i sum_t  w_i,t [ u_i,t f_i,t l(z_i,t, A_i,t) + beta KL_i,t ],      z, f = ratio(x),   x = log pi - log pi_old
//! ```
//! A method's file chooses the parts; the arithmetic, and its gradient, is written here once.

mod correction;
mod loss;

pub use correction::{Correction, Unit};

use crate::assignment::Assignment;
use crate::equation::{BatchSize, Equation, number};
use crate::group::{Group, Response};
use crate::kl::Kl;
use crate::method::{Coupling, Credit, Loss, Method, TokenTerm};
use crate::ratio::PolicyRatio;
use crate::reduction::Reduction;
use crate::surrogate::Surrogate;

/// A clipped surrogate with a trace, a KL penalty and a reduction.
#[derive(Debug)]
pub struct Objective {
    /// Rewards and evidence to advantages.
    pub assignment: Box<dyn Assignment>,
    /// The policy ratio that the surrogate sees: where a trace enters, and which.
    pub ratio: Box<dyn PolicyRatio>,
    /// Divide a response's policy term by the mean of its on-policy weights, so that they average 1.
    pub unit_mean: bool,
    /// The loss of a token as a function of its ratio.
    pub surrogate: Surrogate,
    /// Estimator and coefficient `beta`; `None` when there is no KL term.
    pub kl: Option<(Kl, f64)>,
    /// How token losses become one number.
    pub reduction: Reduction,
    /// Give responses that were cut off weight 0.
    pub mask_truncated: bool,
    /// What corrects the sampler's mismatch; none where the sampler computes what the trainer computes.
    pub correction: Option<Correction>,
}

impl Objective {
    /// The credit of a batch with the advantages that `advantages` gives for the responses that carry weight.
    fn credit_with(&self, batch: &[Group], advantages: impl FnOnce(&[bool]) -> Vec<Vec<f64>>) -> Vec<Credit> {
        let responses: Vec<&Response> = batch.iter().flat_map(|g| &g.responses).collect();
        let active: Vec<bool> = responses.iter().map(|r| !(self.mask_truncated && r.truncated)).collect();
        let kept = |(r, &active): (&&Response, &bool)| active.then(|| self.assignment.kept(r)).flatten();
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
        let advantages = advantages(&active);
        let mut eligible = self.ratio.select(batch, &active).map(Vec::into_iter);
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
        self.credit_with(batch, |active| self.assignment.advantages(batch, active))
    }

    fn credit_given(&self, batch: &[Group], advantages: Vec<Vec<f64>>) -> Vec<Credit> {
        self.credit_with(batch, |_| advantages)
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
            || self.assignment.reads_tokens()
            || self.ratio.reads_tokens()
    }

    fn compares_rewards(&self) -> bool {
        self.assignment.compares()
    }

    fn max_len(&self) -> Option<usize> {
        self.ratio.max_len()
    }

    fn coupling(&self) -> Coupling {
        let reduction = match self.reduction {
            _ if self.mask_truncated => Coupling::Everything,
            Reduction::TokenMean | Reduction::GroupTokenMean => Coupling::RewardsAndTotalLength,
            Reduction::PerResponse | Reduction::Constant(_) => Coupling::Rewards,
        };
        reduction.max(self.assignment.coupling()).max(self.ratio.coupling())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods;
    use crate::surrogate::Region;
    use crate::token_weights::neutral;

    /// Only the required parts of a method, so that what is provided is computed the long way.
    #[derive(Debug)]
    struct Plain<'a>(&'a dyn Method);

    impl Method for Plain<'_> {
        fn credit(&self, batch: &[Group]) -> Vec<Credit> {
            self.0.credit(batch)
        }
        fn loss_around(&self, response: &Response, credit: &Credit, logps: &[f64], frozen: &[f64]) -> Loss {
            self.0.loss_around(response, credit, logps, frozen)
        }
        fn coupling(&self) -> Coupling {
            self.0.coupling()
        }
    }

    #[test]
    fn terms_of_tokens_are_those_of_losses_with_one_weight() {
        let old: Vec<f64> = (0..6).map(|t| -1.0 - 0.25 * f64::from(t)).collect();
        let response = |reward: f64| Response {
            tokens: vec![1; 6],
            ref_logps: Some(old.iter().map(|x| x - 0.1).collect()),
            evidence: neutral(6),
            ..Response::graded(old.clone(), reward)
        };
        let batch = [Group { responses: vec![response(1.0), response(0.0)] }];
        let drift = [0.4, -0.5, 0.0, 0.05, 0.3, -0.3];
        let logps: Vec<f64> = old.iter().zip(drift).map(|(x, d)| x + d).collect();
        for (name, settings) in [
            ("grpo", "beta=0.1"),
            ("grpo", ""),
            ("grpo_lambda", "lambda=0.5 clamp=none beta=0.1 kl=k1"),
            ("grpo_lambda", "update=weight"),
            ("dapo", ""),
            ("cispo", ""),
            ("sapo", ""),
        ] {
            let method = methods::parse(name, settings).unwrap().method;
            for (response, credit) in batch[0].responses.iter().zip(method.credit(&batch)) {
                let terms = method.token_terms(response, &credit, &logps);
                let long_way = Plain(method.as_ref()).token_terms(response, &credit, &logps);
                for (a, b) in terms.iter().zip(&long_way) {
                    let gaps = [a.loss - b.loss, a.ratio - b.ratio, a.kl - b.kl];
                    assert!(
                        gaps.iter().all(|g| g.abs() < 1e-12) && a.region == b.region,
                        "{name} {settings}: {a:?} for {b:?}"
                    );
                }
            }
        }
        let grpo = methods::parse("grpo", "").unwrap().method;
        let credits = grpo.credit(&batch);
        let regions = |i: usize| {
            grpo.token_terms(&batch[0].responses[i], &credits[i], &logps)
                .iter()
                .map(|t| t.region)
                .collect::<Vec<_>>()
        };
        let (free, low, high) = (Region::Free, Region::Low, Region::High);
        // exp(0.4) and exp(0.3) are above 1.2, exp(-0.5) and exp(-0.3) below 0.8.
        assert_eq!(regions(0), [high, free, free, free, high, free]);
        assert_eq!(regions(1), [free, low, free, free, free, low]);
    }
}
