//! The trait of methods, their evaluation on a batch, and their descriptions; [`crate::methods`] exports them.

mod batch;
mod spec;

pub use batch::{
    BatchLoss, batch_metrics, credited_metrics, evaluate, evaluate_groups, evaluate_groups_given,
};
pub use spec::{Configured, MethodSpec, MissingInput, Provenance};

use crate::equation::{BatchSize, Equation};
use crate::group::{Group, Response};
use crate::metrics::Metrics;
use crate::surrogate::Region;

/// The constants of one response once its batch has been sampled and graded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Credit {
    /// Advantage of every token, length `T`; constant in the parameters.
    pub advantages: Vec<f64>,
    /// Weight of every token in the loss, length `T`: the reduction (for example `1/(g T_i)`), 0 where masked.
    pub weights: Vec<f64>,
    /// Tokens that a selective trace may read, length `T`; `None` if the trace reads all.
    pub eligible: Option<Vec<bool>>,
}

/// One response's share of the loss.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss {
    /// The share; the batch loss (to be minimised) is the sum over responses.
    pub value: f64,
    /// `d loss / d log pi(a_t|s_t)`, length `T`.
    pub dlogps: Vec<f64>,
    /// Counts, sums and maxima of this evaluation, to be logged.
    pub metrics: Metrics,
}

/// One token's share of the loss before the weights of the reduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenTerm {
    /// The policy loss, without the KL term.
    pub loss: f64,
    /// The ratio that the surrogate sees, `exp(z_t)`: of the token, or of its trace.
    pub ratio: f64,
    /// The KL estimate; 0 when there is no KL term.
    pub kl: f64,
    /// The branch of the clip, which says whether the loss is flat.
    pub region: Region,
}

/// The way in which the other responses of a group enter a response's own gradient, at fixed tokens and log-probabilities of its own.
///
/// The exact oracle uses it to average over a group without enumerating all tuples; a test
/// compares that average with the full enumeration for every registered method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coupling {
    /// Only through their rewards.
    Rewards,
    /// Through their rewards and the sum of their lengths (global token mean).
    RewardsAndTotalLength,
    /// Through anything: tokens, extra inputs, single lengths, places in the group.
    Everything,
}

/// A policy-optimisation method, with its settings.
pub trait Method: Send + Sync + std::fmt::Debug {
    /// Advantages and loss weights of every response of the batch, in flat order (group by group).
    ///
    /// # Panics
    /// If a response is empty, or an extra input that the method needs is missing; [`crate::check`] reports both as errors.
    fn credit(&self, batch: &[Group]) -> Vec<Credit>;

    /// The share of `response` in the loss at current log-probabilities `logps` (length `T`), where stopped gradients hold
    /// the numbers they have at log-probabilities `frozen`.
    ///
    /// `dlogps` is the derivative of the value by `logps` at fixed `frozen`: what automatic differentiation makes of a
    /// stopped gradient, and what a test can compare with finite differences.
    ///
    /// # Panics
    /// If lengths differ.
    fn loss_around(&self, response: &Response, credit: &Credit, logps: &[f64], frozen: &[f64]) -> Loss;

    /// The share of `response` in the loss at current log-probabilities `logps` (length `T`).
    ///
    /// # Panics
    /// If lengths differ.
    fn loss(&self, response: &Response, credit: &Credit, logps: &[f64]) -> Loss {
        self.loss_around(response, credit, logps, logps)
    }

    /// The policy loss of every token of `response` at `logps`, before the weights of the reduction and without the KL term, length `T`.
    ///
    /// # Panics
    /// If lengths differ.
    fn token_losses(&self, response: &Response, credit: &Credit, logps: &[f64]) -> Vec<f64> {
        let of_token = |t: usize| {
            let mut weights = vec![0.0; response.len()];
            weights[t] = 1.0;
            self.loss(response, &Credit { weights, ..credit.clone() }, logps).metrics.policy_loss
        };
        (0..response.len()).map(of_token).collect()
    }

    /// The terms of every token of `response` at `logps`, before the weights of the reduction, length `T`.
    ///
    /// # Panics
    /// If lengths differ.
    fn token_terms(&self, response: &Response, credit: &Credit, logps: &[f64]) -> Vec<TokenTerm> {
        let of_token = |t: usize| {
            let mut weights = vec![0.0; response.len()];
            weights[t] = 1.0;
            let metrics = self.loss(response, &Credit { weights, ..credit.clone() }, logps).metrics;
            let region = match (metrics.clipped_low, metrics.clipped_high) {
                (0, 0) => Region::Free,
                (0, _) => Region::High,
                _ => Region::Low,
            };
            TokenTerm { loss: metrics.policy_loss, ratio: metrics.ratio_sum, kl: metrics.kl_sum, region }
        };
        (0..response.len()).map(of_token).collect()
    }

    /// [`Method::credit`] with advantages from elsewhere in place of the method's own, one list per response in flat order.
    ///
    /// # Panics
    /// The panics of [`Method::credit`]. An [`Objective`](crate::objective::Objective) needs no extra inputs that only advantages are made of; its
    /// mask of tokens holds for these advantages, too.
    fn credit_given(&self, batch: &[Group], advantages: Vec<Vec<f64>>) -> Vec<Credit> {
        let given = |(credit, advantages)| Credit { advantages, ..credit };
        self.credit(batch).into_iter().zip(advantages).map(given).collect()
    }

    /// The way in which other responses enter a response's gradient.
    fn coupling(&self) -> Coupling;

    /// True if the policy term of a batch whose rewards all agree is 0. That is so where responses are compared with each other. A
    /// critic, or a reward per token, gives advantages without a comparison.
    fn compares_rewards(&self) -> bool {
        true
    }

    /// True if a response that is alone in its group gets advantage 0, whatever its reward: the baseline is the group's.
    fn needs_others(&self) -> bool {
        true
    }

    /// True if [`Credit::eligible`] chooses tokens, without which the loss cannot be computed.
    fn selects_tokens(&self) -> bool {
        false
    }

    /// The length of the longest response that the method accepts, in tokens; none where its settings do not bound it.
    fn max_len(&self) -> Option<usize> {
        None
    }

    /// The objective as an equation with its numbers, for a batch of this size; `None` for a method that does not describe itself.
    fn equation(&self, _size: &BatchSize) -> Option<Equation> {
        None
    }

    /// True if the [`Credit`] of a response depends on its own tokens or extra inputs, beyond its reward and length.
    ///
    /// `true` is always right; `false` lets the exact oracle compute one credit for all responses of a reward and length.
    fn credit_reads_tokens(&self) -> bool {
        true
    }

    /// True if `old_logps` decide which tokens have a weight, as a rejection does: a policy that recomputes them must then do so before credit is
    /// taken. Advantages that contain `old_logps` (a gap to a teacher, a KL in the reward, an energy) keep the sampler's, which differ by rounding.
    fn weights_read_old_logps(&self) -> bool {
        false
    }
}
