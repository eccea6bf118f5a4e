//! Statistics of experiments: moments, intervals, bootstrap, and tests of differences.
//!
//! All values are `f64`. Two rules hold throughout. A sample that is too small for the question gives
//! `None`, never a made-up number. A value that is not finite, a level outside 0..1 or lengths that do
//! not match are mistakes of the caller, and panic. Whatever is random takes a seed and gives the same
//! number for the same seed on every machine.
//!
//! Sources: Wilson (1927) and Clopper & Pearson (1934) for proportions; Hyndman & Fan (1996) for
//! quantiles; Holm (1979) for many tests; Agarwal et al., "Deep Reinforcement Learning at the Edge of
//! the Statistical Precipice" (2021, the `rliable` library) for the interquartile mean, the stratified
//! bootstrap and the probability of improvement; Phipson & Smyth (2010) for Monte-Carlo p-values; Chen et al. (2021) for pass@k;
//! McNemar (1947) for paired proportions.

mod attempts;
mod bootstrap;
mod compare;
mod interval;
mod power;
mod sign_flip;

pub use attempts::pass_at_k;
pub use bootstrap::{Bootstrap, probability_of_improvement};
pub use compare::{Permutation, holm, paired_permutation, two_proportions};
pub use interval::{
    Estimate, Interval, clopper_pearson, mean_of_independent, normal_interval, t_interval, wilson,
};
pub use power::{fewest_discordant, least_detectable_difference, least_detectable_mean, mcnemar_power};
pub use sign_flip::sign_flip_test;

use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// Panics unless all values are finite.
#[track_caller]
fn check(values: &[f64]) {
    for (i, v) in values.iter().enumerate() {
        assert!(v.is_finite(), "value {i} of a sample is {v}");
    }
}

/// The values in ascending order.
#[track_caller]
fn sorted(values: &[f64]) -> Vec<f64> {
    check(values);
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// The arithmetic mean; `None` for no values.
///
/// # Panics
/// When a value is not finite.
///
/// ```
/// # use grpo_lambda::stats::mean;
/// assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
/// assert_eq!(mean(&[]), None);
/// ```
#[track_caller]
pub fn mean(values: &[f64]) -> Option<f64> {
    check(values);
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The variance, in two passes (mean first), so that a large common offset costs no digits.
///
/// ```text
/// s² = Σᵢ (xᵢ − x̄)² / (n − ddof)
/// ```
///
/// `ddof` is 1 for the unbiased estimate from a sample and 0 for a whole population. `None` unless
/// n > ddof.
///
/// # Panics
/// When a value is not finite.
///
/// ```
/// # use grpo_lambda::stats::variance;
/// assert_eq!(variance(&[1.0, 2.0, 3.0, 4.0], 0), Some(1.25));
/// assert_eq!(variance(&[1.0, 3.0], 1), Some(2.0));
/// assert_eq!(variance(&[1.0], 1), None);
/// ```
#[track_caller]
pub fn variance(values: &[f64], ddof: usize) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (values.len() > ddof).then(|| squares / (values.len() - ddof) as f64)
}

/// The standard error of the mean, √(s²/n) with the unbiased s²; `None` for fewer than two values.
///
/// # Panics
/// When a value is not finite.
///
/// ```
/// # use grpo_lambda::stats::standard_error;
/// assert_eq!(standard_error(&[1.0, 3.0]), Some(1.0));
/// ```
#[track_caller]
pub fn standard_error(values: &[f64]) -> Option<f64> {
    Some((variance(values, 1)? / values.len() as f64).sqrt())
}

/// The `q`-quantile by linear interpolation between order statistics (type 7 of Hyndman & Fan, the
/// default of R and NumPy); `None` for no values.
///
/// ```text
/// h = (n − 1) q,   Q = x₍⌊h⌋₎ + (h − ⌊h⌋) (x₍⌊h⌋₊₁₎ − x₍⌊h⌋₎),   x₍₀₎ ≤ x₍₁₎ ≤ …
/// ```
///
/// # Panics
/// When a value is not finite or `q` lies outside 0..=1.
///
/// ```
/// # use grpo_lambda::stats::quantile;
/// assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.5), Some(2.5));
/// assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.25), Some(1.75));
/// ```
#[track_caller]
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    quantile_of_sorted(&sorted(values), q)
}

#[track_caller]
fn quantile_of_sorted(values: &[f64], q: f64) -> Option<f64> {
    assert!((0.0..=1.0).contains(&q), "a quantile lies between 0 and 1, not at {q}");
    let h = values.len().checked_sub(1)? as f64 * q;
    let (low, high) = (values[h.floor() as usize], values[h.ceil() as usize]);
    Some(low + h.fract() * (high - low))
}

/// The interquartile mean: the mean of the middle half of the values, robust to outliers yet less noisy
/// than the median. `None` for no values.
///
/// A quarter of the *mass* is removed at each end: of the sorted values the i-th (counted from 0) holds
/// the stretch \[i, i+1\] of \[0, n\], and its weight is the part within \[n/4, 3n/4\].
///
/// ```text
/// IQM = (2/n) Σᵢ wᵢ x₍ᵢ₎,   wᵢ = |[i, i+1] ∩ [n/4, 3n/4]|,   Σᵢ wᵢ = n/2
/// ```
///
/// For n divisible by 4 this is the mean of the middle n/2 values, as in `rliable`. Otherwise `rliable`
/// (SciPy's `trim_mean`) removes ⌊n/4⌋ whole values at each end and so keeps more than half; here the
/// boundary values count in part.
///
/// # Panics
/// When a value is not finite.
///
/// ```
/// # use grpo_lambda::stats::iqm;
/// assert_eq!(iqm(&[100.0, 1.0, 3.0, -100.0]), Some(2.0));
/// // n = 5: (0.75·2 + 3 + 0.75·10) / 2.5
/// assert_eq!(iqm(&[1.0, 2.0, 3.0, 10.0, 99.0]), Some(4.8));
/// ```
#[track_caller]
pub fn iqm(values: &[f64]) -> Option<f64> {
    iqm_of_sorted(&sorted(values))
}

fn iqm_of_sorted(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let weighted = values.iter().enumerate().map(|(i, v)| {
        let (start, end) = ((i as f64).max(n / 4.0), (i as f64 + 1.0).min(3.0 * n / 4.0));
        (end - start).max(0.0) * v
    });
    (!values.is_empty()).then(|| weighted.sum::<f64>() / (n / 2.0))
}

/// The expected maximum of `k` independent standard normal variables.
///
/// ```text
/// E max = ∫ x k φ(x) Φ(x)ᵏ⁻¹ dx
/// ```
///
/// Choosing the best of `k` equally good variants by a score with standard error σ reports on average
/// σ·E max too much: 1.42 σ for the best of 8. Accurate to 1e-10, the precision of Φ here.
///
/// # Panics
/// When `k` is 0.
///
/// ```
/// # use grpo_lambda::stats::expected_max_normal;
/// assert_eq!(format!("{:.5}", expected_max_normal(8)), "1.42360");
/// ```
#[track_caller]
pub fn expected_max_normal(k: u64) -> f64 {
    assert!(k > 0, "the maximum of no values");
    let normal = Normal::standard();
    // The trapezoid rule converges faster than any power of the step on a smooth integrand that
    // vanishes at both ends; beyond 12 the density is below 1e-31.
    const STEP: f64 = 1.0 / 64.0;
    let term = |i: i32| {
        let x = f64::from(i) * STEP;
        x * normal.pdf(x) * normal.cdf(x).powf((k - 1) as f64)
    };
    (-12 * 64..=12 * 64).map(term).sum::<f64>() * STEP * k as f64
}

/// A straight line fitted by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearFit {
    /// The value at x = 0.
    pub intercept: f64,
    /// The change of y per unit of x.
    pub slope: f64,
    /// The standard error of the slope under equal independent errors; `None` for two points.
    pub slope_se: Option<f64>,
    /// The share of the variance of y that the line explains, in 0..=1; 1 when all y are equal.
    pub r_squared: f64,
}

/// Fits y = a + b x by least squares.
///
/// ```text
/// b = Σ (xᵢ − x̄)(yᵢ − ȳ) / Σ (xᵢ − x̄)²,   a = ȳ − b x̄,   se(b)² = Σ eᵢ² / ((n − 2) Σ (xᵢ − x̄)²)
/// ```
///
/// `None` for fewer than two points or when all x are equal.
///
/// # Panics
/// When the lengths differ or a value is not finite.
///
/// ```
/// # use grpo_lambda::stats::linear_fit;
/// let fit = linear_fit(&[0.0, 1.0, 2.0], &[1.0, 3.0, 5.0]).unwrap();
/// assert_eq!((fit.intercept, fit.slope, fit.r_squared), (1.0, 2.0, 1.0));
/// ```
#[track_caller]
pub fn linear_fit(x: &[f64], y: &[f64]) -> Option<LinearFit> {
    assert_eq!(x.len(), y.len(), "a line needs as many y as x");
    let (mx, my) = (mean(x)?, mean(y)?);
    let sum = |f: &dyn Fn(f64, f64) -> f64| x.iter().zip(y).map(|(x, y)| f(x - mx, y - my)).sum::<f64>();
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if xx == 0.0 {
        return None;
    }
    let slope = xy / xx;
    let errors = sum(&|x, y| (y - slope * x).powi(2));
    let slope_se = (x.len() > 2).then(|| (errors / (x.len() - 2) as f64 / xx).sqrt());
    let r_squared = if yy == 0.0 { 1.0 } else { (1.0 - errors / yy).clamp(0.0, 1.0) };
    Some(LinearFit { intercept: my - slope * mx, slope, slope_se, r_squared })
}

#[cfg(test)]
mod benchmark_tests;
#[cfg(test)]
mod tests;
