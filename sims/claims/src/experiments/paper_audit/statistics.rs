//! The little statistics that printed accuracies allow.
//!
//! All of it is normal theory for averages of right/wrong answers, plus exact counting.

use grpo_lambda_printed::{Benchmark, Run};
use statrs::distribution::{ChiSquared, Continuous, ContinuousCDF, Normal, StudentsT};

/// Half-width of a two-sided 95 % interval in standard errors.
pub const Z95: f64 = 1.959963984540054;
/// The quantile of the standard normal at 0.8: what 80 % power adds to [`Z95`].
pub const Z80: f64 = 0.8416212335729143;

/// Points per unit of accuracy.
const POINTS: f64 = 100.0;

/// `P(|Z| ≥ |z|)` for a standard normal `Z`.
pub fn two_sided(z: f64) -> f64 {
    2.0 * Normal::standard().cdf(-z.abs())
}

/// `P(X ≥ x)` for a χ² variable.
///
/// # Panics
/// If `freedom` is not positive.
pub fn chi_squared_tail(x: f64, freedom: f64) -> f64 {
    ChiSquared::new(freedom).expect("positive degrees of freedom").sf(x)
}

/// `P(|T| ≥ |t|)` for Student's t.
///
/// # Panics
/// If `freedom` is not positive.
pub fn two_sided_t(t: f64, freedom: f64) -> f64 {
    2.0 * StudentsT::new(0.0, 1.0, freedom).expect("positive degrees of freedom").cdf(-t.abs())
}

/// Standard error, in points, of the difference of two five-benchmark averages when every item of every
/// run counts as an independent draw:
///
/// ```text
/// SE = 100/5 · sqrt( Σ_b [p₁(1 − p₁) + p₂(1 − p₂)] / N_b )
/// ```
///
/// The two runs answer the *same* items, so the truth is smaller by `sqrt(1 − ρ)` for a correlation ρ of
/// right and wrong between the runs; the paper prints nothing from which ρ could be estimated. And the
/// chance in training (one seed) is not in it at all.
pub fn difference_se(a: &Run, b: &Run) -> f64 {
    (average_variance(a) + average_variance(b)).sqrt() * POINTS
}

/// [`difference_se`] with one success and one failure added to each benchmark (Agresti and Caffo 2000), for scores
/// near 0 or 1 where `p(1 − p)` is too small.
pub fn smoothed_difference_se(a: &Run, b: &Run) -> f64 {
    let variance = |run: &Run| {
        sum_over(|i, n| {
            let p = (run.scores[i].value() * n + 1.0) / (n + 2.0);
            p * (1.0 - p) / (n + 2.0)
        }) / 25.0
    };
    (variance(a) + variance(b)).sqrt() * POINTS
}

/// Standard error, in points, of one five-benchmark average from its items.
pub fn single_se(run: &Run) -> f64 {
    average_variance(run).sqrt() * POINTS
}

/// Variance of a five-benchmark average from its items.
fn average_variance(run: &Run) -> f64 {
    binomial_variance(&run.scores.map(|s| s.value()))
}

/// `Σ_b p(1 − p)/N_b / 25`.
pub fn binomial_variance(p: &[f64; 5]) -> f64 {
    sum_over(|i, n| p[i] * (1.0 - p[i]) / n) / 25.0
}

/// The share of [`binomial_variance`] that one benchmark contributes.
pub fn variance_share(p: &[f64; 5], benchmark: Benchmark) -> f64 {
    let (q, n) = (p[benchmark as usize], benchmark.items() as f64);
    q * (1.0 - q) / n / 25.0 / binomial_variance(p)
}

fn sum_over(f: impl Fn(usize, f64) -> f64) -> f64 {
    Benchmark::ALL.iter().enumerate().map(|(i, b)| f(i, b.items() as f64)).sum()
}

/// The smallest true gain that a two-sided 5 % test finds with 80 % power.
pub fn minimal_detectable(se: f64) -> f64 {
    (Z95 + Z80) * se
}

/// The correlation between runs on the same items from which on a difference of `z` unpaired standard
/// errors would be significant at 5 %: `1 − (z/1.96)²`, and 0 if it already is.
pub fn correlation_needed(z: f64) -> f64 {
    (1.0 - (z / Z95).powi(2)).max(0.0)
}

/// `P(max_{i ≤ k} X_i − X_0 ≥ x)` for independent standard normals: the chance that the best of `k`
/// variants without any effect beats the baseline they share by `x` standard errors *of one average*.
pub fn best_of_tail(k: i32, x: f64) -> f64 {
    integrate(|baseline| {
        Normal::standard().pdf(baseline) * (1.0 - Normal::standard().cdf(baseline + x).powi(k))
    })
}

/// The `x` that [`best_of_tail`] exceeds with probability `tail`.
pub fn best_of_quantile(k: i32, tail: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 20.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if best_of_tail(k, middle) > tail { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The trapezoidal rule over ±12, exact to rounding for integrands with normal tails.
fn integrate(f: impl Fn(f64) -> f64) -> f64 {
    const STEPS: i32 = 1200;
    let h = 24.0 / f64::from(STEPS);
    (0..=STEPS).map(|i| f(f64::from(i) * h - 12.0) * h).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accuracy of statrs' normal distribution function.
    const NORMAL: f64 = 1e-10;

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} is not {b}");
    }

    #[test]
    fn the_normal_constants_are_quantiles() {
        close(two_sided(Z95), 0.05, NORMAL);
        close(Normal::standard().cdf(Z80), 0.8, NORMAL);
        close(two_sided_t(2.0638985616280205, 24.0), 0.05, 1e-9);
        close(chi_squared_tail(7.814727903251179, 3.0), 0.05, 1e-9);
    }

    #[test]
    fn with_one_variant_the_best_is_a_plain_difference() {
        close(best_of_tail(1, 1.5), Normal::standard().cdf(-1.5 / 2f64.sqrt()), NORMAL);
        close(best_of_tail(8, 0.0), 8.0 / 9.0, NORMAL);
        close(best_of_tail(8, best_of_quantile(8, 0.05)), 0.05, NORMAL);
    }

    #[test]
    fn a_z_of_one_needs_a_correlation_of_three_quarters() {
        close(correlation_needed(Z95 / 2.0), 0.75, 1e-15);
        assert_eq!(correlation_needed(3.0), 0.0);
    }
}
