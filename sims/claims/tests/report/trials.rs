//! Comparisons of methods from recorded runs, by other code than `grpo_lambda_trials`: areas under curves, exact sign flips, Holm's correction, verdicts.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use crate::interval;
use grpo_lambda_trials::Curve;
use serde::Deserialize;

/// Student's t at 97.5 % and at 95 %, with 11 and with 23 degrees of freedom, from printed tables.
pub(crate) const T_OF_12: [f64; 2] = [2.200_985_160, 1.795_884_819];
pub(crate) const T_OF_24: [f64; 2] = [2.068_657_610, 1.713_871_528];

/// The mean of the straight lines between exams over the budget: at midpoints of pieces within which they are straight; 0 after the last exam.
pub(crate) fn area(curve: &Curve, budget: f64) -> f64 {
    let points = &curve.0;
    let at = |tokens: f64| {
        let Some(k) = points.iter().position(|p| p.tokens >= tokens) else { return 0.0 };
        let (from, to) = (points[k.max(1) - 1], points[k.max(1)]);
        from.accuracy + (to.accuracy - from.accuracy) * (tokens - from.tokens) / (to.tokens - from.tokens)
    };
    let inside = points.iter().map(|p| p.tokens).filter(|tokens| *tokens < budget);
    let ends: Vec<f64> = inside.chain([budget]).collect();
    ends.windows(2).map(|w| (w[1] - w[0]) * at((w[0] + w[1]) / 2.0)).sum::<f64>() / budget
}

/// The exact two-sided p-value of all sign flips: the sums of either half of the seeds, joined by bisection.
pub(crate) fn exact_p(xs: &[f64]) -> f64 {
    let sums = |half: &[f64]| -> Vec<f64> {
        half.iter().fold(vec![0.0], |sums, x| sums.iter().flat_map(|sum| [sum + x, sum - x]).collect())
    };
    let (first, mut second) = (sums(&xs[..xs.len() / 2]), sums(&xs[xs.len() / 2..]));
    second.sort_by(f64::total_cmp);
    let observed = xs.iter().sum::<f64>().abs() - 1e-9;
    let below = |limit: f64| second.partition_point(|sum| *sum < limit);
    let beyond = |sum: &f64| second.len() - below(observed - sum) + below(-observed - sum);
    first.iter().map(beyond).sum::<usize>() as f64 / (first.len() * second.len()) as f64
}

/// A row of a file of comparisons.
#[derive(Deserialize)]
pub(crate) struct Compared {
    #[serde(default)]
    pub(crate) role: String,
    #[serde(default)]
    pub(crate) task: String,
    pub(crate) method: String,
    pub(crate) with: String,
    pub(crate) difference: f64,
    difference_low: f64,
    difference_high: f64,
    narrow_low: f64,
    narrow_high: f64,
    #[serde(default)]
    higher_on: Option<usize>,
    pub(crate) p: f64,
    pub(crate) corrected: Option<f64>,
    pub(crate) verdict: String,
}

impl Compared {
    pub(crate) fn name(&self) -> String {
        format!("{} {} - {}", self.task, self.method, self.with)
    }

    /// Compares the interval, the p-value and the number of seeds with differences by seed; `flips` are drawn, or else all are counted.
    pub(crate) fn check(&self, values: &[f64], t: [f64; 2], flips: Option<f64>) {
        let (name, [mid, low, high]) = (self.name(), interval(values, t[0]));
        let narrow = interval(values, t[1]);
        let numbers =
            [self.difference, self.difference_low, self.difference_high, self.narrow_low, self.narrow_high];
        let wanted = [mid, low, high, narrow[1], narrow[2]];
        assert!(numbers.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-8), "{name}: {wanted:?}");
        let higher = values.iter().filter(|value| **value > 0.0).count();
        assert!(self.higher_on.is_none_or(|found| found == higher), "{name}: {higher}");
        let p = exact_p(values);
        // Drawn flips give a p within five standard errors.
        let tolerance = flips.map_or(1e-9, |flips| 5.0 * (p * (1.0 - p) / flips).sqrt() + 2e-5);
        assert!((self.p - p).abs() <= tolerance, "{name}: {} {p}", self.p);
    }

    /// The verdict by Holm over a family of p-values, after the corrected p was compared: the k-th least of n times n - k, and no less than the one before.
    pub(crate) fn corrected_verdict(&self, family: &[f64], margin: f64) -> &'static str {
        let mut sorted = family.to_vec();
        sorted.sort_by(f64::total_cmp);
        let until = sorted.iter().enumerate().take_while(|(_, other)| **other <= self.p);
        let each = until.map(|(k, other)| (other * (family.len() - k) as f64).min(1.0));
        let (holm, corrected) = (each.fold(0.0, f64::max), self.corrected.unwrap());
        assert!((corrected - holm).abs() < 1e-12, "{}: {corrected} {holm}", self.name());
        match () {
            () if self.narrow_low >= -margin && self.narrow_high <= margin => "equivalent",
            () if corrected <= 0.05 && self.difference_low > 0.0 => "higher",
            () if corrected <= 0.05 && self.difference_high < 0.0 => "lower",
            () => "inconclusive",
        }
    }
}

#[test]
fn areas_sign_flips_and_holm_by_hand() {
    let curve: Curve = "0:0.2 100:0.4 200:0.6".parse().unwrap();
    // Trapezoids of 100 tokens: 30 + 50; of the second one 22.5 up to 150; nothing after the last exam.
    for (budget, sum) in [(200.0, 80.0), (150.0, 52.5), (400.0, 80.0)] {
        assert!((area(&curve, budget) - sum / budget).abs() < 1e-12, "{budget}");
    }
    // All of one sign: two assignments are as far. One seed of weight: every assignment is.
    assert_eq!([exact_p(&[1.0; 24]), exact_p(&[1.0; 12])], [2.0 / f64::from(1 << 24), 2.0 / 4096.0]);
    let mut alone = [0.0; 24];
    alone[5] = 1.0;
    assert_eq!(exact_p(&alone), 1.0);
    let row = |difference, p, corrected| Compared {
        role: String::new(),
        task: String::new(),
        method: String::new(),
        with: String::new(),
        difference,
        difference_low: difference - 0.05,
        difference_high: difference + 0.05,
        narrow_low: difference - 0.04,
        narrow_high: difference + 0.04,
        higher_on: None,
        p,
        corrected: Some(corrected),
        verdict: String::new(),
    };
    let family = [0.01, 0.02, 0.4];
    assert_eq!(row(0.1, 0.01, 0.03).corrected_verdict(&family, 0.02), "higher");
    assert_eq!(row(-0.1, 0.02, 0.04).corrected_verdict(&family, 0.02), "lower");
    assert_eq!(row(0.1, 0.4, 0.4).corrected_verdict(&family, 0.02), "inconclusive");
    assert_eq!(row(0.0, 0.4, 0.4).corrected_verdict(&family, 0.05), "equivalent");
}
