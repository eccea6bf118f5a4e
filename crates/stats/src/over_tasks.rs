//! [`OverTasks`]: a mean over tasks where the tasks are the sample.

use super::interval::Interval;
use super::{mean, paired_permutation, quantile, t_interval};

/// Sign flips drawn where there are too many to count all.
const FLIPS: usize = 19_999;
/// The confidence level of the interval, and the level of the test.
const LEVEL: f64 = 0.95;

/// A mean over tasks with what it owes to the choice of tasks: Student's t, sign flips, the median, and the mean without each.
///
/// An interval over runs says how well a mean over *these* tasks is known. What another set of tasks would give is a different question,
/// and one task can carry a mean. Student's t takes the tasks for a sample of a normal law, sign flips only their law for symmetric about 0
/// when there is no effect; a percentile bootstrap of few tasks is narrower than either, and too narrow.
#[derive(Clone, Debug, PartialEq)]
pub struct OverTasks {
    /// The mean, with Student's t interval at 95 %.
    pub interval: Interval,
    /// The two-sided p-value of sign flips over tasks: exact up to 20 tasks, else from a seeded sample; see [`paired_permutation`].
    pub p: f64,
    /// The median over tasks.
    pub median: f64,
    /// The mean of the other tasks, by the task left out.
    pub without: Vec<f64>,
}

impl OverTasks {
    /// From one value per task.
    ///
    /// `None` when there are fewer than two tasks.
    ///
    /// # Panics
    /// When a value is not finite.
    ///
    /// ```
    /// use grpo_lambda_stats::OverTasks;
    /// let o = OverTasks::new(&[0.0, 0.0, 0.3]).unwrap();
    /// assert!((o.interval.mid - 0.1).abs() < 1e-12 && o.median == 0.0 && o.p == 1.0);
    /// assert_eq!(o.carried_by(), (2, 0.0)); // without the third task nothing is left
    /// assert!(!o.positive() && !o.negative());
    /// ```
    pub fn new(values: &[f64]) -> Option<OverTasks> {
        let interval = t_interval(values, LEVEL)?;
        let p = paired_permutation(values, &vec![0.0; values.len()], FLIPS, 0)?.p;
        let total: f64 = values.iter().sum();
        let rest = (values.len() - 1) as f64;
        let without = values.iter().map(|v| (total - v) / rest).collect();
        Some(OverTasks { interval, p, median: quantile(values, 0.5)?, without })
    }

    /// The task whose removal moves the mean most, and the mean without it.
    pub fn carried_by(&self) -> (usize, f64) {
        let moved = |x: &f64| (x - self.interval.mid).abs();
        let most = self.without.iter().enumerate().max_by(|a, b| moved(a.1).total_cmp(&moved(b.1)));
        most.map_or((0, f64::NAN), |(task, mean)| (task, *mean))
    }

    /// True if a mean above 0 is shown for tasks like these: the interval lies above 0, and sign flips agree at 5 %.
    pub fn positive(&self) -> bool {
        self.interval.low > 0.0 && self.p <= 1.0 - LEVEL
    }

    /// True if one below 0 is shown in the same sense.
    pub fn negative(&self) -> bool {
        self.interval.high < 0.0 && self.p <= 1.0 - LEVEL
    }
}

/// A choice among several settings made without the run that it is applied to: for every run the setting with the greatest mean over the
/// *other* runs, and the value of that run under it. The mean of what is returned is not raised by the choice, as that of the best setting on
/// the same runs is.
///
/// `values[setting][run]`; the first of equal settings is chosen. `None` when there is no setting, settings differ in their runs, or there are
/// fewer than two runs.
///
/// # Panics
/// When a value is not finite.
///
/// ```
/// use grpo_lambda_stats::chosen_on_the_others;
/// // The first run looks best under the second setting only because of itself: the others choose the first.
/// assert_eq!(chosen_on_the_others(&[vec![0.2, 0.5, 0.5], vec![0.9, 0.4, 0.4]]), Some(vec![0.2, 0.4, 0.4]));
/// assert_eq!(chosen_on_the_others(&[vec![1.0]]), None);
/// ```
pub fn chosen_on_the_others(values: &[Vec<f64>]) -> Option<Vec<f64>> {
    let runs = values.first()?.len();
    if runs < 2 || values.iter().any(|of| of.len() != runs) {
        return None;
    }
    let others = |of: &[f64], run: usize| mean(&[&of[..run], &of[run + 1..]].concat());
    let chosen = |run: usize| {
        let mut best = (&values[0], others(&values[0], run)?);
        for of in &values[1..] {
            let score = others(of, run)?;
            if score > best.1 {
                best = (of, score);
            }
        }
        Some(best.0[run])
    };
    (0..runs).map(chosen).collect()
}
