//! Confidence intervals in closed form.

use super::{mean, standard_error};
use statrs::distribution::{Beta, ContinuousCDF, Normal, StudentsT};

/// An estimate with the ends of its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The estimate itself, which need not be in the middle.
    pub mid: f64,
    /// The upper end.
    pub high: f64,
    /// The confidence level, in 0..1.
    pub level: f64,
}

impl Interval {
    /// True if the interval holds `value`, ends included.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
    /// The length of the interval.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// An estimate with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Its standard error.
    pub se: f64,
}

impl Estimate {
    /// The normal interval around the estimate; see [`normal_interval`].
    #[track_caller]
    pub fn interval(&self, level: f64) -> Interval {
        normal_interval(self.value, self.se, level)
    }
}

/// The normal quantile z with P(|Z| ≤ z) = level.
#[track_caller]
fn z(level: f64) -> f64 {
    check_level(level);
    Normal::standard().inverse_cdf(0.5 + level / 2.0)
}

#[track_caller]
pub(super) fn check_level(level: f64) {
    assert!(level > 0.0 && level < 1.0, "a confidence level lies between 0 and 1, not at {level}");
}

#[track_caller]
pub(super) fn check_count(successes: u64, n: u64) {
    assert!(successes <= n, "{successes} successes in {n} trials");
}

/// The Wilson score interval of a proportion: all p that a normal test with the variance p(1−p)/n does
/// not reject. Its coverage is close to the level on average also for small n, unlike p̂ ± z·se. `mid`
/// is p̂ = k/n. `None` for n = 0.
///
/// ```text
/// (p̂ + z²/2n ± z √(p̂(1−p̂)/n + z²/4n²)) / (1 + z²/n)
/// ```
///
/// # Panics
/// When `successes` > `n` or `level` lies outside 0..1.
///
/// ```
/// # use grpo_lambda_stats::wilson;
/// let i = wilson(8, 10, 0.95).unwrap();
/// assert_eq!(format!("{:.4} {:.1} {:.4}", i.low, i.mid, i.high), "0.4902 0.8 0.9433");
/// assert_eq!(wilson(0, 10, 0.95).unwrap().low, 0.0);
/// ```
#[track_caller]
pub fn wilson(successes: u64, n: u64, level: f64) -> Option<Interval> {
    check_count(successes, n);
    let z = z(level);
    let (k, n) = ((n > 0).then_some(successes as f64)?, n as f64);
    let p = k / n;
    let centre = p + z * z / (2.0 * n);
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z * z / n;
    // Exactly 0 and 1 at the ends, where the formula rounds.
    let low = if k == 0.0 { 0.0 } else { (centre - half) / scale };
    let high = if k == n { 1.0 } else { (centre + half) / scale };
    Some(Interval { low, mid: p, high, level })
}

/// The Clopper–Pearson interval of a proportion: all p that neither one-sided binomial test at (1−level)/2
/// rejects. Its coverage is at least the level for every p, at the price of width. `None` for n = 0.
///
/// ```text
/// low = B⁻¹(α/2; k, n−k+1),   high = B⁻¹(1−α/2; k+1, n−k),   α = 1 − level
/// ```
///
/// # Panics
/// When `successes` > `n` or `level` lies outside 0..1.
///
/// ```
/// # use grpo_lambda_stats::clopper_pearson;
/// let i = clopper_pearson(8, 10, 0.95).unwrap();
/// assert_eq!(format!("{:.4} {:.4}", i.low, i.high), "0.4439 0.9748");
/// ```
#[track_caller]
pub fn clopper_pearson(successes: u64, n: u64, level: f64) -> Option<Interval> {
    check_count(successes, n);
    check_level(level);
    let (k, m) = ((n > 0).then_some(successes as f64)?, n as f64);
    let tail = (1.0 - level) / 2.0;
    let low = if successes == 0 { 0.0 } else { beta_quantile(k, m - k + 1.0, tail) };
    let high = if successes == n { 1.0 } else { beta_quantile(k + 1.0, m - k, 1.0 - tail) };
    Some(Interval { low, mid: k / m, high, level })
}

fn beta_quantile(a: f64, b: f64, q: f64) -> f64 {
    let beta = Beta::new(a, b).expect("both parameters are at least 1");
    // The library's search need not end where the density is this narrow.
    if a + b < 1e6 {
        return beta.inverse_cdf(q);
    }
    let (mut low, mut high) = (0.0, 1.0);
    loop {
        let mid = f64::midpoint(low, high);
        if mid <= low || mid >= high {
            return mid;
        }
        *(if beta.cdf(mid) < q { &mut low } else { &mut high }) = mid;
    }
}

/// The interval mean ± z·se of an estimate that is nearly normal.
///
/// # Panics
/// When `mean` is not finite, `se` is negative or not finite, or `level` lies outside 0..1.
///
/// ```
/// # use grpo_lambda_stats::normal_interval;
/// let i = normal_interval(1.0, 0.5, 0.95);
/// assert_eq!(format!("{:.4} {:.4}", i.low, i.high), "0.0200 1.9800");
/// ```
#[track_caller]
pub fn normal_interval(mean: f64, se: f64, level: f64) -> Interval {
    assert!(mean.is_finite() && se.is_finite() && se >= 0.0, "an estimate {mean} with standard error {se}");
    let half = z(level) * se;
    Interval { low: mean - half, mid: mean, high: mean + half, level }
}

/// Student's interval of the mean of normal values, x̄ ± t₍n−1₎·s/√n; `None` for fewer than two values, and where an end of it is larger than
/// any number.
///
/// # Panics
/// When a value is not finite or `level` lies outside 0..1.
///
/// ```
/// # use grpo_lambda_stats::t_interval;
/// let i = t_interval(&[1.0, 3.0], 0.95).unwrap();
/// assert_eq!(format!("{:.3} {} {:.3}", i.low, i.mid, i.high), "-10.706 2 14.706");
/// ```
#[track_caller]
pub fn t_interval(values: &[f64], level: f64) -> Option<Interval> {
    check_level(level);
    let (mean, se) = (mean(values)?, standard_error(values)?);
    let t = StudentsT::new(0.0, 1.0, (values.len() - 1) as f64).expect("at least one degree of freedom");
    let half = t.inverse_cdf(0.5 + level / 2.0) * se;
    let (low, high) = (mean - half, mean + half);
    (low.is_finite() && high.is_finite()).then_some(Interval { low, mid: mean, high, level })
}

/// The interval of the unweighted mean of several independent estimates, from the interval of each: the squares of the distances to
/// the ends add up (the "method of variance estimates recovery"). Unlike mean ± z·se it keeps the skewness of its parts, and has
/// width where all successes are 0. `None` for no parts.
///
/// ```text
/// low = m − √(Σᵢ (midᵢ − lowᵢ)²) / k,   m = Σᵢ midᵢ / k,   high likewise
/// ```
///
/// Sources: Newcombe (1998) for two proportions with Wilson intervals; Zou & Donner (2008) in general.
///
/// # Panics
/// When the levels differ.
///
/// ```
/// # use grpo_lambda_stats::{Interval, mean_of_independent};
/// let part = |low, mid, high| Interval { low, mid, high, level: 0.95 };
/// let mean = mean_of_independent(&[part(0.2, 0.5, 0.7), part(0.5, 0.9, 1.0)]).unwrap();
/// assert_eq!(format!("{:.4} {:.4} {:.4}", mean.low, mean.mid, mean.high), "0.4500 0.7000 0.8118");
/// ```
#[track_caller]
pub fn mean_of_independent(parts: &[Interval]) -> Option<Interval> {
    let level = parts.first()?.level;
    assert!(parts.iter().all(|p| p.level == level), "intervals of different levels");
    let k = parts.len() as f64;
    let mid = parts.iter().map(|p| p.mid).sum::<f64>() / k;
    let reach = |f: fn(&Interval) -> f64| parts.iter().map(|p| f(p).powi(2)).sum::<f64>().sqrt() / k;
    Some(Interval { low: mid - reach(|p| p.mid - p.low), mid, high: mid + reach(|p| p.high - p.mid), level })
}
