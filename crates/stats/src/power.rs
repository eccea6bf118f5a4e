//! The power of a benchmark of n problems when two models answer the same problems.
//!
//! A problem that both answer in the same way says nothing; the discordant ones decide. McNemar's exact test asks how many of the discordant
//! problems went to one side, given that each goes either way with probability 1/2 where the models are equally good.

use super::interval::check_level;
use statrs::distribution::{Binomial, ContinuousCDF, Discrete, DiscreteCDF, Normal};

/// The fewest discordant problems, all on one side, whose exact two-sided p-value is at most `alpha`: 6 at 5 %. Fewer
/// cannot show any difference.
///
/// ```text
/// min m with 2 · 2⁻ᵐ ≤ α
/// ```
///
/// # Panics
/// When `alpha` lies outside 0..1.
///
/// ```
/// # use grpo_lambda_stats::fewest_discordant;
/// assert_eq!((fewest_discordant(0.05), fewest_discordant(0.01)), (6, 8));
/// ```
#[track_caller]
pub fn fewest_discordant(alpha: f64) -> u64 {
    check_level(alpha);
    (1..).find(|&m| 2.0 * 0.5f64.powi(m) <= alpha).map_or(u64::MAX, |m| m as u64)
}

/// The chance that McNemar's exact two-sided test at level `alpha` finds a difference between two models on `n` problems, when
/// a problem is discordant with probability `discordance` and the better model's share of right answers is larger by `difference`.
///
/// ```text
/// D ~ Binomial(n, ψ),   b | D ~ Binomial(D, (1 + δ/ψ)/2),   power = P(p(b, D) ≤ α)
/// ```
///
/// Problems count as independent and equal. At δ = 0 it is the size of the test, at most α.
///
/// # Panics
/// When `discordance` is not in 0..=1, `difference` not in 0..=discordance, or `alpha` outside 0..1.
///
/// ```
/// # use grpo_lambda_stats::mcnemar_power;
/// // Every problem discordant and all on one side: certain from 6 problems on, impossible with 5.
/// assert_eq!((mcnemar_power(5, 1.0, 1.0, 0.05), mcnemar_power(6, 1.0, 1.0, 0.05)), (0.0, 1.0));
/// ```
#[track_caller]
pub fn mcnemar_power(n: u64, discordance: f64, difference: f64, alpha: f64) -> f64 {
    Mcnemar::new(n, discordance, alpha).power(difference)
}

/// The smallest difference in the share of right answers that [`mcnemar_power`] finds with probability `power`, to 1e-6. `None`
/// when not even the largest possible one (all discordant problems on one side) is found so often.
///
/// # Panics
/// As [`mcnemar_power`], and when `power` lies outside 0..1.
///
/// ```
/// # use grpo_lambda_stats::least_detectable_difference;
/// // 500 problems of which a fifth are discordant: 5.7 points at 80 % power.
/// let least = least_detectable_difference(500, 0.2, 0.05, 0.8).unwrap();
/// assert_eq!(format!("{least:.3}"), "0.057");
/// assert_eq!(least_detectable_difference(30, 0.1, 0.05, 0.8), None);
/// ```
#[track_caller]
pub fn least_detectable_difference(n: u64, discordance: f64, alpha: f64, power: f64) -> Option<f64> {
    check_level(power);
    let test = Mcnemar::new(n, discordance, alpha);
    if discordance == 0.0 || test.power(discordance) < power {
        return None;
    }
    let (mut low, mut high) = (0.0, discordance);
    while high - low > 1e-6 {
        let middle = f64::midpoint(low, high);
        if test.power(middle) < power { low = middle } else { high = middle }
    }
    Some(high)
}

/// The smallest difference of two means that a paired test at level `alpha` finds with probability `power`, from the standard
/// deviation of a pair's difference, by the normal approximation.
///
/// ```text
/// δ = (z₍₁₋α/₂₎ + z₍power₎) s / √n
/// ```
///
/// # Panics
/// When `alpha` or `power` lies outside 0..1, `n` is 0, or `sd` is negative or not finite.
///
/// ```
/// # use grpo_lambda_stats::least_detectable_mean;
/// assert_eq!(format!("{:.4}", least_detectable_mean(100, 0.5, 0.05, 0.8)), "0.1401");
/// ```
#[track_caller]
pub fn least_detectable_mean(n: u64, sd: f64, alpha: f64, power: f64) -> f64 {
    check_level(alpha);
    check_level(power);
    assert!(n > 0 && sd.is_finite() && sd >= 0.0, "a standard deviation of {sd} over {n} pairs");
    let normal = Normal::standard();
    (normal.inverse_cdf(1.0 - alpha / 2.0) + normal.inverse_cdf(power)) * sd / (n as f64).sqrt()
}

/// The test on `n` problems, its rejection region worked out once.
struct Mcnemar {
    discordance: f64,
    /// For each number of discordant problems that is at all likely: its probability, and from how many on one side the test rejects.
    regions: Vec<(u64, f64, u64)>,
}

impl Mcnemar {
    #[track_caller]
    fn new(n: u64, discordance: f64, alpha: f64) -> Self {
        check_level(alpha);
        assert!((0.0..=1.0).contains(&discordance), "a share of discordant problems of {discordance}");
        let count = Binomial::new(discordance, n).expect("a probability");
        let likely = (0..=n).map(|d| (d, count.pmf(d))).filter(|(_, p)| *p > 1e-14);
        let regions = likely.filter_map(|(d, p)| Some((d, p, critical(d, alpha)?))).collect();
        Mcnemar { discordance, regions }
    }

    #[track_caller]
    fn power(&self, difference: f64) -> f64 {
        assert!((0.0..=self.discordance).contains(&difference), "a difference of {difference}");
        if self.discordance == 0.0 {
            return 0.0;
        }
        let side = f64::midpoint(1.0, difference / self.discordance).min(1.0);
        let rejects = |&(d, p, critical): &(u64, f64, u64)| {
            let b = Binomial::new(side, d).expect("a probability");
            p * (1.0 - b.cdf(critical - 1) + b.cdf(d - critical))
        };
        self.regions.iter().map(rejects).sum::<f64>().clamp(0.0, 1.0)
    }
}

/// The smallest number of `d` discordant problems on one side, more than half of them, at which the exact two-sided p-value is at most
/// `alpha`; `None` when there is none.
fn critical(d: u64, alpha: f64) -> Option<u64> {
    let fair = Binomial::new(0.5, d).expect("a probability");
    let (mut tail, mut least) = (0.0, None);
    for b in (d / 2 + 1..=d).rev() {
        tail += fair.pmf(b);
        // A hair of tolerance, so that 2/2⁶ computed is 2/2⁶ on paper.
        if 2.0 * tail > alpha * (1.0 + 1e-12) {
            break;
        }
        least = Some(b);
    }
    least
}
