//! [`OverTasks`]: a mean over tasks where the tasks are the sample.

use super::interval::Interval;
use super::{Bootstrap, mean, quantile};

/// A mean over tasks with what it owes to the choice of tasks: an interval over draws of tasks, the median, and the mean without each.
///
/// An interval over runs says how well a mean over *these* tasks is known. What another set of tasks would give is a different question,
/// and one task can carry a mean.
#[derive(Clone, Debug, PartialEq)]
pub struct OverTasks {
    /// The mean, with its percentile interval over tasks drawn with replacement.
    pub interval: Interval,
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
    /// When a value is not finite, or as [`Bootstrap::interval`].
    ///
    /// ```
    /// use grpo_lambda_stats::{Bootstrap, OverTasks};
    /// let o = OverTasks::new(&[0.0, 0.0, 0.3], Bootstrap::default()).unwrap();
    /// assert!((o.interval.mid - 0.1).abs() < 1e-12 && o.median == 0.0);
    /// assert_eq!(o.carried_by(), (2, 0.0)); // without the third task nothing is left
    /// assert!(!o.positive() && !o.negative());
    /// ```
    pub fn new(values: &[f64], bootstrap: Bootstrap) -> Option<OverTasks> {
        let interval = bootstrap.interval(&[values.to_vec()], |drawn| mean(&drawn[0]).unwrap_or(f64::NAN))?;
        let total: f64 = values.iter().sum();
        let rest = (values.len() - 1) as f64;
        let without = values.iter().map(|v| (total - v) / rest).collect();
        Some(OverTasks { interval, median: quantile(values, 0.5)?, without })
    }

    /// The task whose removal moves the mean most, and the mean without it.
    pub fn carried_by(&self) -> (usize, f64) {
        let moved = |x: &f64| (x - self.interval.mid).abs();
        let most = self.without.iter().enumerate().max_by(|a, b| moved(a.1).total_cmp(&moved(b.1)));
        most.map_or((0, f64::NAN), |(task, mean)| (task, *mean))
    }

    /// True if the mean is above 0 for tasks like these: its interval is, and it stays so whichever task is left out.
    pub fn positive(&self) -> bool {
        self.interval.low > 0.0 && self.without.iter().all(|x| *x > 0.0)
    }

    /// True if it is below 0 in the same sense.
    pub fn negative(&self) -> bool {
        self.interval.high < 0.0 && self.without.iter().all(|x| *x < 0.0)
    }
}
