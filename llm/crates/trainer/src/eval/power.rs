//! Statistical power: which differences a benchmark of this size can detect.

use grpo_lambda_stats::{
    fewest_discordant, least_detectable_difference, least_detectable_mean, mean, variance,
};

use super::score::Tally;

/// Level of the tests.
pub const ALPHA: f64 = 0.05;
/// Power of the tests: the probability of detecting a difference.
pub const POWER: f64 = 0.8;

/// The limits of a paired comparison on these problems.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerLimits {
    pub n: u64,
    /// With one sample: the fewest problems, all won by one model, that are significant.
    pub fewest: Option<u64>,
    /// The assumed share of discordant problems (one sample) or standard deviation of a problem's difference (several).
    pub spread: f64,
    /// The smallest difference in accuracy detected with 80 % power; `None` if there is none.
    pub least: Option<f64>,
    /// Samples of a problem.
    pub samples: u64,
}

/// Detection limits from scores in which ungradable responses are scored 0.
///
/// The second model is assumed to have the same accuracy and independent scores: with one sample the share of discordant problems is
/// `2 p (1 - p)`, with several the variance of a problem's difference is twice that of its score. Models that find the same problems hard differ
/// less, so a smaller difference can be detected. `None` without a problem.
pub fn limits(tallies: &[Tally]) -> Option<PowerLimits> {
    let scores: Vec<f64> = tallies.iter().map(Tally::score_of_all).collect();
    let p = mean(&scores)?;
    let samples = tallies.iter().map(|t| t.samples).max()?;
    Some(if samples == 1 {
        of_single(scores.len() as u64, 2.0 * p * (1.0 - p))
    } else {
        of_several(scores.len() as u64, samples, (2.0 * variance(&scores, 0)?).sqrt())
    })
}

/// The limits with one sample and this share of discordant problems.
pub fn of_single(n: u64, discordance: f64) -> PowerLimits {
    let least = least_detectable_difference(n, discordance, ALPHA, POWER);
    PowerLimits { n, fewest: Some(fewest_discordant(ALPHA)), spread: discordance, least, samples: 1 }
}

/// The limits with several samples and this standard deviation of a problem's difference.
pub fn of_several(n: u64, samples: u64, sd: f64) -> PowerLimits {
    let least = (sd > 0.0).then(|| least_detectable_mean(n, sd, ALPHA, POWER));
    PowerLimits { n, fewest: None, spread: sd, least, samples }
}

impl PowerLimits {
    /// The limits as a sentence; `assumed` states the origin of the spread.
    pub fn sentence(&self, assumed: &str) -> String {
        let points = |x: f64| format!("{:.1} points", 100.0 * x);
        let n = self.n;
        let floor = match self.fewest {
            Some(m) if m > n => {
                format!("with {n} problems no difference can be significant ({m} are needed)")
            }
            Some(m) => format!(
                "no difference under {} ({m} of {n} problems, all won by one side) can be significant",
                points(m as f64 / n as f64)
            ),
            None => format!("{n} problems, {} samples each", self.samples),
        };
        let spread = match self.fewest {
            Some(_) => format!("{:.0} % of problems discordant, {assumed}", 100.0 * self.spread),
            None => {
                format!("a standard deviation of {:.2} of a problem's difference, {assumed}", self.spread)
            }
        };
        match self.least {
            Some(least) => format!(
                "{floor}; one under {} is missed more often than one time in five ({spread})",
                points(least)
            ),
            // Scores that are all equal do not bound the spread of another model's scores.
            None if self.spread == 0.0 => floor,
            None => format!(
                "{floor}; with {spread}, none has an 80 % chance of being found; a larger difference makes more of them discordant"
            ),
        }
    }
}
