//! The largest of several equal chances.

use statrs::distribution::{Continuous, ContinuousCDF, Normal};

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
/// # use grpo_lambda_stats::expected_max_normal;
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
