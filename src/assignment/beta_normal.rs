use super::Assignment;
use crate::advantage::all_equal;
use crate::equation::{Part, number};
use crate::group::Group;
use crate::method::Coupling;
use statrs::function::beta::ln_beta;

/// Centred rewards divided by a Beta density at the group's success rate.
///
/// ```text
/// A_i   = (R_i - p) / f(p; alpha, beta),     R = (r - low) / (high - low),  p = mean R of the group
/// a     = (m (1-m) / v - 1) m,   b = (m (1-m) / v - 1) (1-m)       m, v: mean and variance (ddof 1) of p over groups
/// alpha = max(1, 1 + a/3),       beta = max(1, 1 + b/3)
/// ```
/// `alpha = beta = 1` is the centred reward, `alpha = beta = 3/2` the z-score of binary rewards up to the constant `8/pi`.
/// With one group, or without spread between groups, the moments say nothing and both are 1 (for the former so do the
/// authors; in the latter their code divides by 0). `1/f` is capped at 1e6. The density is taken at a mean
/// inside `[1/2n, 1 - 1/2n]` for `n` rewards: no mixed group of binary rewards lies outside, and other rewards, which the
/// authors' code refuses when their mean leaves `[0, 1]`, stay finite.
///
/// Source: Xiao, Zhang and Cao 2025, arXiv 2506.02864, and the authors' code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BetaNormal {
    /// The reward that counts as 0.
    pub low: f64,
    /// The reward that counts as 1; not `low`.
    pub high: f64,
    /// `alpha`, at least 1; none: from the moments of the batch.
    pub alpha: Option<f64>,
    /// `beta`, at least 1; none: from the moments of the batch.
    pub beta: Option<f64>,
}

/// Largest factor a group is multiplied by.
const LARGEST_FACTOR: f64 = 1e6;

impl BetaNormal {
    /// `alpha` and `beta` of the batch, from the success rates of its groups.
    ///
    /// ```
    /// use grpo_lambda::assignment::BetaNormal;
    /// let moments = BetaNormal { low: 0.0, high: 1.0, alpha: None, beta: None };
    /// // m = 1/2, v = 1/24: m(1-m)/v - 1 = 5, a = b = 5/2
    /// let spread = (1.0f64 / 48.0).sqrt();
    /// let (alpha, beta) = moments.shape_of(&[0.5 - spread, 0.5 + spread]);
    /// assert!((alpha - (1.0 + 2.5 / 3.0)).abs() < 1e-12 && (beta - alpha).abs() < 1e-12);
    /// ```
    pub fn shape_of(&self, rates: &[f64]) -> (f64, f64) {
        let (alpha, beta) = Self::moments(rates);
        (self.alpha.unwrap_or(alpha), self.beta.unwrap_or(beta))
    }

    fn moments(rates: &[f64]) -> (f64, f64) {
        if all_equal(rates) {
            return (1.0, 1.0);
        }
        let n = rates.len() as f64;
        let m = rates.iter().sum::<f64>() / n;
        let v = rates.iter().map(|p| (p - m).powi(2)).sum::<f64>() / (n - 1.0);
        let total = m * (1.0 - m) / v - 1.0;
        ((1.0 + total * m / 3.0).max(1.0), (1.0 + total * (1.0 - m) / 3.0).max(1.0))
    }

    /// `1 / f(p; alpha, beta)`.
    fn factor(p: f64, (alpha, beta): (f64, f64)) -> f64 {
        let log_density = (alpha - 1.0) * p.ln() + (beta - 1.0) * (1.0 - p).ln() - ln_beta(alpha, beta);
        (-log_density).exp().min(LARGEST_FACTOR)
    }
}

/// The success rate of a group.
struct Rate {
    mean: f64,
    border: f64,
    agree: bool,
}

impl Rate {
    fn inside(&self) -> f64 {
        self.mean.clamp(self.border, 1.0 - self.border)
    }
}

impl Assignment for BetaNormal {
    fn advantages(&self, batch: &[Group], _: &[bool]) -> Vec<Vec<f64>> {
        let scaled = |r: f64| (r - self.low) / (self.high - self.low);
        let rate = |g: &Group| {
            let known: Vec<f64> = g.rewards().into_iter().flatten().map(scaled).collect();
            (!known.is_empty()).then(|| Rate {
                mean: known.iter().sum::<f64>() / known.len() as f64,
                border: 0.5 / known.len() as f64,
                agree: all_equal(&known),
            })
        };
        let rates: Vec<Option<Rate>> = batch.iter().map(rate).collect();
        let inside: Vec<f64> = rates.iter().flatten().map(|rate| rate.mean.clamp(0.0, 1.0)).collect();
        let shape = self.shape_of(&inside);
        let of_group = |(group, rate): (&Group, &Option<Rate>)| {
            let advantage = |r: f64| match rate {
                Some(rate) if !rate.agree => (scaled(r) - rate.mean) * Self::factor(rate.inside(), shape),
                _ => 0.0,
            };
            let row = |r: &crate::group::Response| vec![r.reward.map_or(0.0, advantage); r.len()];
            group.responses.iter().map(row).collect::<Vec<_>>()
        };
        batch.iter().zip(&rates).flat_map(of_group).collect()
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let scaled = match (self.low, self.high) {
            (0.0, 1.0) => "R_i = r_i".to_owned(),
            (low, high) => format!("R_i = (r_i - {}) / {}", number(low), number(high - low)),
        };
        let advantage = format!(
            "A_i = (R_i - p) / f(p; alpha, beta), {scaled}, p the mean of R in its group; 0 where all rewards of the group agree"
        );
        let density = format!(
            "f the Beta density, at p kept inside [1/2n, 1 - 1/2n] for n rewards; 1/f at most {}",
            number(LARGEST_FACTOR)
        );
        let mut shape = Vec::new();
        for (name, given, share) in [("alpha", self.alpha, "m"), ("beta", self.beta, "(1 - m)")] {
            shape.push(match given {
                Some(given) => format!("{name} = {}", number(given)),
                None => format!("{name} = max(1, 1 + (m (1 - m) / v - 1) {share} / 3)"),
            });
        }
        let mut shape = shape.join(", ");
        if self.alpha.is_none() || self.beta.is_none() {
            shape += ", m and v the mean and variance (over n - 1) of p, kept inside [0, 1], over the groups; 1 where all p agree";
        }
        vec![
            ("credit", format!("{token} = A_i at every token")),
            ("advantage", advantage),
            ("density", density),
            ("shape", shape),
        ]
    }

    fn coupling(&self) -> Coupling {
        Coupling::Rewards
    }

    fn reads_tokens(&self) -> bool {
        false
    }
}
