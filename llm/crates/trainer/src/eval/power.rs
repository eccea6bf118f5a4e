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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_the_papers_benchmarks() {
        let tallies = |right: u64, n: u64| -> Vec<Tally> {
            (0..n).map(|i| Tally { right: u64::from(i < right), graded: 1, samples: 1 }).collect()
        };
        let aime = limits(&tallies(5, 30)).expect("problems");
        assert_eq!((aime.n, aime.fewest), (30, Some(6)));
        assert!((aime.spread - 2.0 * (5.0 / 30.0) * (25.0 / 30.0)).abs() < 1e-12);
        let text = aime.sentence("as of two independent models");
        assert!(
            text.starts_with("no difference under 20.0 points (6 of 30 problems, all won by one side)"),
            "{text}"
        );
        let math = limits(&tallies(375, 500)).expect("problems");
        // ψ = 0.375: δ ≈ 2.8 √(0.375/500) = 0.077.
        let least = math.least.expect("enough problems");
        assert!((0.07..0.085).contains(&least), "{least}");
        assert_eq!(limits(&tallies(0, 30)).expect("problems").least, None);
        assert!(
            limits(&tallies(2, 4))
                .expect("problems")
                .sentence("x")
                .contains("no difference can be significant (6 are needed)")
        );
        assert_eq!(limits(&[]), None);
    }

    #[test]
    fn few_discordant_problems_bound_no_larger_difference() {
        // All 4 of 4 discordant problems won by one side: 0.8 points, found 21 times in 100. A larger difference has more of them.
        let text = of_single(500, 0.008).sentence("as in these pairs");
        let end = "with 1 % of problems discordant, as in these pairs, none has an 80 % chance of being found; a larger difference makes more of them \
                   discordant";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn several_samples_are_judged_by_the_spread_over_problems() {
        let tallies: Vec<Tally> =
            (0..100).map(|i| Tally { right: i % 2 * 4, graded: 4, samples: 4 }).collect();
        let limits = limits(&tallies).expect("problems");
        // Var = 1/4, sd of a difference √(1/2), 2.8016 · 0.7071 / 10.
        assert!((limits.least.expect("spread") - 0.198_10).abs() < 1e-4, "{limits:?}");
        assert!(limits.sentence("x").starts_with("100 problems, 4 samples each; one under 19.8 points"));
    }
}
