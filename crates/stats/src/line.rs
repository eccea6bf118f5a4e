//! A straight line through points.

use super::mean;

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
/// # use grpo_lambda_stats::linear_fit;
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
