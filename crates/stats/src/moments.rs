//! Moments, quantiles and the interquartile mean of a sample.

/// Panics unless all values are finite.
#[track_caller]
pub(super) fn check(values: &[f64]) {
    for (i, v) in values.iter().enumerate() {
        assert!(v.is_finite(), "value {i} of a sample is {v}");
    }
}

/// The values in ascending order.
#[track_caller]
pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
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
/// # use grpo_lambda_stats::mean;
/// assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
/// assert_eq!(mean(&[]), None);
/// ```
#[track_caller]
pub fn mean(values: &[f64]) -> Option<f64> {
    check(values);
    let n = values.len() as f64;
    let sum: f64 = values.iter().sum();
    // A sum may overflow where the mean does not.
    let mean = || if sum.is_finite() { sum / n } else { values.iter().map(|v| v / n).sum() };
    (!values.is_empty()).then(mean)
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
/// # use grpo_lambda_stats::variance;
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
/// # use grpo_lambda_stats::standard_error;
/// assert_eq!(standard_error(&[1.0, 3.0]), Some(1.0));
/// ```
#[track_caller]
pub fn standard_error(values: &[f64]) -> Option<f64> {
    let error = |values: &[f64]| Some((variance(values, 1)? / values.len() as f64).sqrt());
    let found = error(values)?;
    let largest = values.iter().fold(0.0, |largest: f64, v| largest.max(v.abs()));
    if found.is_normal() || largest == 0.0 {
        return Some(found);
    }
    // Squares overflow or underflow where the error does not.
    let scaled: Vec<f64> = values.iter().map(|v| v / largest).collect();
    Some(error(&scaled)? * largest)
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
/// # use grpo_lambda_stats::quantile;
/// assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.5), Some(2.5));
/// assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.25), Some(1.75));
/// ```
#[track_caller]
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    quantile_of_sorted(&sorted(values), q)
}

#[track_caller]
pub(super) fn quantile_of_sorted(values: &[f64], q: f64) -> Option<f64> {
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
/// # use grpo_lambda_stats::iqm;
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
