use super::Assignment;
use crate::advantage::{OutcomeAdvantage, all_equal};
use crate::equation::{Part, number};
use crate::group::{Group, Response};

/// Outcome advantages of a reward that falls with a right response's length, weighed by the group's success rate (GRPO-LEAD).
///
/// ```text
/// R_i = exp(-alpha z_i) where r_i > 0, else -1,      z_i = (T_i - mean T) / (std T + 1e-8) over the right responses of the group
/// A_i = a_i w(p) where a_i > 0, else a_i w(1 - p),   a_i the outcome advantage of R_i, p the share of right responses
/// w(p) = low + (high - low) / (1 + exp(steepness (p - middle)))
/// ```
/// A response is right if its reward is above 0, so the reward must be correctness alone: with a bonus of form added to it a wrong response counts as
/// right. A reward of a response that cannot be graded takes no part. Source: arXiv 2504.09696; the standard deviation is over `n`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DifficultyWeighted {
    /// From the rewards `R` of a group to one advantage per response.
    pub outcome: OutcomeAdvantage,
    /// Strength of the penalty of length.
    pub alpha: f64,
    /// The weight where success is certain, and where it is rare.
    pub bounds: (f64, f64),
    /// Slope of the logistic function.
    pub steepness: f64,
    /// The success rate at which the weight is half way.
    pub middle: f64,
}

/// Added to the standard deviation of lengths.
const EPSILON: f64 = 1e-8;

impl DifficultyWeighted {
    /// The weight of a success rate.
    fn weight(&self, rate: f64) -> f64 {
        let (low, high) = self.bounds;
        low + (high - low) / (1.0 + (self.steepness * (rate - self.middle)).exp())
    }

    /// The rewards `R` of a group, and its success rate.
    fn rewards(&self, group: &Group) -> (Vec<Option<f64>>, f64) {
        let right = |r: &Response| r.reward.is_some_and(|reward| reward > 0.0);
        let length = |r: &Response| r.len() as f64;
        let lengths: Vec<f64> = group.responses.iter().filter(|r| right(r)).map(length).collect();
        let count = lengths.len() as f64;
        let mean = lengths.iter().sum::<f64>() / count;
        let variance = lengths.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / count;
        let score = |r: &Response| match all_equal(&lengths) {
            true => 0.0,
            false => (length(r) - mean) / (variance.sqrt() + EPSILON),
        };
        let reward = |r: &Response| match right(r) {
            true => Some((-self.alpha * score(r)).exp()),
            false => r.reward.map(|_| -1.0),
        };
        let rewards: Vec<Option<f64>> = group.responses.iter().map(reward).collect();
        let graded = rewards.iter().flatten().count().max(1) as f64;
        (rewards, count / graded)
    }
}

impl Assignment for DifficultyWeighted {
    fn advantages(&self, batch: &[Group], _: &[bool]) -> Vec<Vec<f64>> {
        let (rewards, rates): (Vec<_>, Vec<f64>) = batch.iter().map(|g| self.rewards(g)).unzip();
        let mut all = Vec::new();
        for ((group, advantages), rate) in batch.iter().zip(self.outcome.of_batch(&rewards)).zip(rates) {
            let (rare, certain) = (self.weight(rate), self.weight(1.0 - rate));
            let weighed = |a: f64| if a > 0.0 { a * rare } else { a * certain };
            all.extend(group.responses.iter().zip(advantages).map(|(r, a)| vec![weighed(a); r.len()]));
        }
        all
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let weight = format!(
            "w(p) = {} + {} / (1 + exp({} (p - {}))), p the share of right responses in the group",
            number(self.bounds.0),
            number(self.bounds.1 - self.bounds.0),
            number(self.steepness),
            number(self.middle)
        );
        let reward = format!(
            "r_i = exp(-{} z_i) where the graded reward is above 0, else -1; z_i = T_i less its mean over the right responses of the group, over their standard deviation (over n) + {}; 0 where their lengths agree",
            number(self.alpha),
            number(EPSILON)
        );
        vec![
            ("credit", format!("{token} = A_i w(p) where A_i > 0, else A_i w(1 - p)")),
            ("weight of the group", weight),
            ("advantage", self.outcome.equation()),
            ("reward", reward),
        ]
    }

    fn reads_tokens(&self) -> bool {
        false
    }

    fn compares(&self) -> bool {
        false
    }
}
