//! Gains over GRPO, their standard errors, corrections for several comparisons, and the little statistics that printed
//! accuracies allow: normal theory for averages of right and wrong answers, plus exact counting.

use crate::experiments::common::{average, mean};
use grpo_lambda_printed::{Benchmark, Column, Dataset, Model, Paper, Run};
use grpo_lambda_stats::{expected_max_normal, holm};
use statrs::distribution::{ChiSquared, Continuous, ContinuousCDF, Normal, StudentsT};

/// A run against the GRPO run of the same model and data set, in points (hundredths of accuracy).
#[derive(Clone, Copy, Debug)]
pub struct Gain {
    pub run: Run,
    pub baseline: Run,
    /// Difference of the means of the five printed scores.
    pub points: f64,
    /// Its unpaired binomial standard error.
    pub se: f64,
    /// The standard error for scores moved away from 0 and 1.
    pub smoothed_se: f64,
}

/// An estimate in points with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub points: f64,
    pub se: f64,
}

impl Estimate {
    pub fn z(&self) -> f64 {
        self.points / self.se
    }
    pub fn p(&self) -> f64 {
        two_sided(self.z())
    }
    /// Ends of the 95 % interval.
    pub fn interval(&self) -> (f64, f64) {
        (self.points - Z95 * self.se, self.points + Z95 * self.se)
    }
    /// The mean of independent estimates.
    pub fn mean(parts: &[Estimate]) -> Estimate {
        assert!(!parts.is_empty(), "the mean of nothing");
        let n = parts.len() as f64;
        Estimate {
            points: average(parts.iter().map(|e| e.points)),
            se: parts.iter().map(|e| e.se * e.se).sum::<f64>().sqrt() / n,
        }
    }
    /// The mean of estimates that rise and fall together, the other extreme: as if they were of the same draws of the
    /// same test items.
    pub fn mean_of_dependent(parts: &[Estimate]) -> Estimate {
        let se = average(parts.iter().map(|e| e.se));
        Estimate { se, ..Estimate::mean(parts) }
    }
}

/// `+1.39 ± 2.34` with the half-width of the 95 % interval.
impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:+.2} ± {:.2}", self.points, Z95 * self.se)
    }
}

impl Gain {
    pub fn estimate(&self) -> Estimate {
        Estimate { points: self.points, se: self.se }
    }
    pub fn smoothed(&self) -> Estimate {
        Estimate { points: self.points, se: self.smoothed_se }
    }
    /// Difference of the printed AVGs in points.
    pub fn printed_points(&self) -> f64 {
        f64::from(self.run.printed_average.0 - self.baseline.printed_average.0) / 10.0
    }
    fn new(run: &Run, baseline: &Run) -> Self {
        Gain {
            run: *run,
            baseline: *baseline,
            points: f64::from(run.sum() - baseline.sum()) / 50.0,
            se: difference_se(run, baseline),
            smoothed_se: smoothed_difference_se(run, baseline),
        }
    }
}

/// Every variant of every table against its GRPO, in the order of the tables: 76 gains.
pub fn gains(paper: &Paper) -> Vec<Gain> {
    let gain = |run: &Run| {
        let baseline = paper.run(run.model, run.dataset, Column::GRPO)?;
        (run.column != Column::GRPO).then(|| Gain::new(run, baseline))
    };
    paper.runs.iter().filter_map(gain).collect()
}

/// The gains of one variant on one model, by data set.
pub fn by_dataset(gains: &[Gain], model: Model, column: Column) -> Vec<Gain> {
    gains.iter().copied().filter(|g| g.run.model == model && g.run.column == column).collect()
}

/// The mean over the four data sets of one variant on one model.
pub fn mean_gain(gains: &[Gain], model: Model, column: Column) -> Estimate {
    Estimate::mean(&by_dataset(gains, model, column).iter().map(Gain::estimate).collect::<Vec<_>>())
}

/// Gains and losses that stay significant at 5 % after Holm's correction over all given comparisons.
#[derive(Clone, Debug)]
pub struct Multiplicity {
    pub adjusted: Vec<f64>,
    pub gains: usize,
    pub losses: usize,
}

/// Corrects a family of estimates.
pub fn multiplicity(estimates: &[Estimate]) -> Multiplicity {
    let adjusted = holm(&estimates.iter().map(Estimate::p).collect::<Vec<_>>());
    let count = |positive: bool| {
        let significant = estimates.iter().zip(&adjusted).filter(|(_, p)| **p < 0.05);
        significant.filter(|(e, _)| (e.points > 0.0) == positive).count()
    };
    Multiplicity { gains: count(true), losses: count(false), adjusted }
}

/// Cochran's test that the estimates share one true value: (Q, p).
pub fn heterogeneity(parts: &[Estimate]) -> (f64, f64) {
    let weights: Vec<f64> = parts.iter().map(|e| 1.0 / (e.se * e.se)).collect();
    let centre =
        parts.iter().zip(&weights).map(|(e, w)| e.points * w).sum::<f64>() / weights.iter().sum::<f64>();
    let q = parts.iter().zip(&weights).map(|(e, w)| w * (e.points - centre).powi(2)).sum();
    (q, chi_squared_tail(q, parts.len() as f64 - 1.0))
}

/// The best of all variants of a model on a data set, against the best by chance alone.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// The best variant.
    pub best: Gain,
    /// Standard error, in points, of one five-benchmark average at the pooled accuracies.
    pub single_se: f64,
    pub chance: Chance,
}

/// The gain of the best of several variants without an effect over the baseline that they share.
#[derive(Clone, Copy, Debug)]
pub struct Chance {
    /// `E[max_i X_i − X_0]` in points.
    pub expected: f64,
    /// The value that this maximum exceeds in 5 % of cases.
    pub quantile95: f64,
    /// `P(max_i X_i − X_0 ≥ the printed gain)`.
    pub p: f64,
}

impl Chance {
    /// From the standard error of one average, against a gain in points.
    pub fn new(variants: usize, se: f64, points: f64) -> Chance {
        Chance {
            expected: expected_max_normal(variants as u64) * se,
            quantile95: best_of_quantile(variants as i32, 0.05) * se,
            p: best_of_tail(variants as i32, points / se),
        }
    }
}

/// The selection effect for one model and data set.
///
/// All columns share the accuracies pooled over them; each of their averages has the binomial standard
/// error s, independently. The gains `X_i − X_0` share the baseline, so they are correlated by one half
/// with standard deviation s·√2; the expected best is still `1.4236·s` for eight, because `E X_0 = 0`.
pub fn selection(gains: &[Gain], model: Model, dataset: Dataset) -> Selection {
    let here: Vec<&Gain> =
        gains.iter().filter(|g| g.run.model == model && g.run.dataset == dataset).collect();
    let best = **here.iter().max_by(|a, b| a.points.total_cmp(&b.points)).expect("a variant");
    let mut pooled = best.baseline.scores.map(|s| s.value());
    for (b, p) in pooled.iter_mut().enumerate() {
        *p = (*p + here.iter().map(|g| g.run.scores[b].value()).sum::<f64>()) / (here.len() + 1) as f64;
    }
    let single_se = 100.0 * binomial_variance(&pooled).sqrt();
    Selection { best, single_se, chance: Chance::new(here.len(), single_se, best.points) }
}

/// The scatter of a model's runs around levels of their own for every column and every data set.
///
/// The residuals of the two-way layout (columns x data sets) hold the noise of the test items, the chance
/// in training, and real differences of a variant between data sets; the paper has no second seed that
/// could tell the last two apart.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub model: Model,
    /// Residual standard deviation of one average, in points.
    pub sd: f64,
    /// Its degrees of freedom: (columns - 1)(data sets - 1).
    pub freedom: f64,
    /// Root mean square of the binomial standard errors of one average, in points.
    pub item_se: f64,
}

impl Spread {
    /// `P` of such a scatter if only test items made it.
    pub fn p(&self) -> f64 {
        chi_squared_tail(self.freedom * (self.sd / self.item_se).powi(2), self.freedom)
    }
}

/// The scatter of a model's runs.
pub fn spread(paper: &Paper, model: Model) -> Spread {
    let rows: Vec<Vec<&Run>> =
        paper.columns(model).into_iter().map(|c| paper.row_of_runs(model, c)).collect();
    let x: Vec<Vec<f64>> = rows.iter().map(|r| r.iter().map(|run| 100.0 * run.mean()).collect()).collect();
    let of_column: Vec<f64> = x.iter().map(|row| mean(row)).collect();
    let sets = Dataset::ALL.len();
    let of_set: Vec<f64> = (0..sets).map(|j| average(x.iter().map(|row| row[j]))).collect();
    let all = mean(&of_column);
    let mut squares = 0.0;
    for i in 0..x.len() {
        for j in 0..sets {
            squares += (x[i][j] - of_column[i] - of_set[j] + all).powi(2);
        }
    }
    let freedom = ((x.len() - 1) * (sets - 1)) as f64;
    let item = average(rows.iter().flatten().map(|run| single_se(run).powi(2)));
    Spread { model, sd: (squares / freedom).sqrt(), freedom, item_se: item.sqrt() }
}

/// A variant's mean gain over the given models, judged by the scatter of runs instead of by test items:
/// the estimate and its two-sided p-value (Student's t, Satterthwaite's degrees of freedom).
pub fn against_spread(per_model: &[Estimate], spreads: &[Spread]) -> (Estimate, f64) {
    assert!(!spreads.is_empty() && per_model.len() == spreads.len(), "one spread per model");
    let n = spreads.len() as f64;
    let variances: Vec<f64> = spreads.iter().map(|s| s.sd * s.sd).collect();
    let total: f64 = variances.iter().sum();
    let freedom = total * total / variances.iter().zip(spreads).map(|(v, s)| v * v / s.freedom).sum::<f64>();
    let se = (2.0 / Dataset::ALL.len() as f64 * total).sqrt() / n;
    let points = average(per_model.iter().map(|e| e.points));
    let estimate = Estimate { points, se };
    (estimate, two_sided_t(estimate.z(), freedom))
}

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
pub fn chi_squared_tail(x: f64, freedom: f64) -> f64 {
    ChiSquared::new(freedom).expect("positive degrees of freedom").sf(x)
}

/// `P(|T| ≥ |t|)` for Student's t.
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
