//! A log as columns over steps, and the windows at its two ends.

use std::collections::BTreeMap;

use grpo_lambda_stats::{mean, standard_error};

use super::{Column, Framework};

/// The RL steps of a run.
#[derive(Clone, Debug)]
pub struct Log {
    pub framework: Framework,
    /// True if every gradient step is known to use responses of the policy that it changes.
    pub on_policy: bool,
    /// False if the method is known to learn from a group whose rewards agree.
    pub compares_groups: bool,
    /// Steps that it has.
    pub steps: usize,
    /// Rows of steps that were written again later, as after a resumption; the later ones count.
    pub repeated: usize,
    /// Times that a row is of an earlier step than the row before it, and of a later one.
    turns: [usize; 2],
    /// The step of each row.
    rows: Vec<f64>,
    columns: BTreeMap<Column, Vec<(f64, f64)>>,
}

/// Steps that a judgement takes, at least: fewer are chance.
pub(super) const LEAST: usize = 10;

/// Several steps in a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Window {
    pub(super) steps: (f64, f64),
    /// The finite values, at least one.
    pub(super) values: Vec<f64>,
}

impl Window {
    fn new(points: &[(f64, f64)]) -> Option<Window> {
        let values: Vec<f64> = points.iter().map(|p| p.1).filter(|x| x.is_finite()).collect();
        let steps = (points.first()?.0, points.last()?.0);
        (!values.is_empty()).then_some(Window { steps, values })
    }

    pub(super) fn mean(&self) -> f64 {
        mean(&self.values).unwrap_or(f64::NAN)
    }

    /// Standard error of the mean, with steps taken as independent.
    pub(super) fn error(&self) -> f64 {
        standard_error(&self.values).unwrap_or(0.0)
    }
}

/// The first and the last tenth of a log.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ends {
    pub(super) early: Window,
    pub(super) recent: Window,
}

impl Ends {
    /// By how much the mean rose.
    pub(super) fn rise(&self) -> f64 {
        self.recent.mean() - self.early.mean()
    }

    /// The rise in standard errors of the difference; infinite or not a number where nothing varies.
    pub(super) fn errors(&self) -> f64 {
        self.rise() / self.early.error().hypot(self.recent.error())
    }
}

impl Log {
    /// An empty one.
    pub fn new(framework: Framework, on_policy: bool) -> Log {
        Log {
            framework,
            on_policy,
            compares_groups: true,
            steps: 0,
            repeated: 0,
            turns: [0, 0],
            rows: Vec::new(),
            columns: BTreeMap::new(),
        }
    }

    /// Begins a row of this step. One that does not come after the last takes the place of the rows from it on.
    pub(super) fn begin(&mut self, step: f64) {
        if let Some(last) = self.rows.last() {
            self.turns[0] += usize::from(step < *last);
            self.turns[1] += usize::from(step > *last);
        }
        if self.rows.last().is_some_and(|last| step <= *last) {
            let before = self.rows.len();
            self.rows.retain(|at| *at < step);
            self.repeated += before - self.rows.len();
            self.columns.values_mut().for_each(|points| points.retain(|(at, _)| *at < step));
        }
        self.rows.push(step);
        self.steps = self.rows.len();
    }

    /// True if rows go back so often that no resumptions explain it: the log is reversed or mixed.
    pub(super) fn is_out_of_order(&self) -> bool {
        let [back, on] = self.turns;
        back >= 2 && 2 * back > on
    }

    /// Adds a value; steps come in their order.
    pub(super) fn push(&mut self, column: Column, step: f64, value: f64) {
        self.columns.entry(column).or_default().push((step, value));
    }

    /// Adds `n` values of a column, for steps from 1.
    #[cfg(test)]
    pub(super) fn with(mut self, column: Column, n: usize, value: impl Fn(usize) -> f64) -> Log {
        (0..n).for_each(|i| self.push(column, (i + 1) as f64, value(i)));
        self.steps = self.steps.max(n);
        self
    }

    /// True if the log has the column.
    pub fn has(&self, column: Column) -> bool {
        self.columns.contains_key(&column)
    }

    /// (step, value) of a column, values that are no numbers among them.
    pub(super) fn get(&self, column: Column) -> &[(f64, f64)] {
        self.columns.get(&column).map_or(&[], Vec::as_slice)
    }

    /// The last tenth of a column, [`LEAST`] steps or more; nothing where it has fewer.
    pub(super) fn recent(&self, column: Column) -> Option<Window> {
        let points = self.get(column);
        let size = LEAST.max(points.len() / 10);
        Window::new(points.get(points.len().checked_sub(size)?..)?)
    }

    /// Both ends of a column, where they do not overlap.
    pub(super) fn ends(&self, column: Column) -> Option<Ends> {
        let points = self.get(column);
        let size = LEAST.max(points.len() / 10);
        let early = points.get(..size).filter(|_| points.len() >= 2 * size)?;
        Some(Ends { early: Window::new(early)?, recent: self.recent(column)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_tenths_of_ten_steps_or_more_and_do_not_overlap() {
        let log = |n| Log::new(Framework::Ours, true).with(Column::Reward, n, |i| i as f64);
        assert_eq!(log(9).recent(Column::Reward), None);
        assert_eq!(log(10).recent(Column::Reward).expect("ten").steps, (1.0, 10.0));
        assert_eq!(log(19).ends(Column::Reward), None);
        let ends = log(300).ends(Column::Reward).expect("many");
        assert_eq!((ends.early.steps, ends.recent.steps), ((1.0, 30.0), (271.0, 300.0)));
        assert_eq!(ends.rise(), 270.0);
        // Thirty whole numbers in a row: variance 77.5, so the error of a mean is sqrt(77.5 / 30).
        assert!((ends.early.error() - (77.5f64 / 30.0).sqrt()).abs() < 1e-12);
        assert!((ends.errors() - 270.0 / (2.0 * 77.5 / 30.0f64).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn values_that_are_no_numbers_do_not_enter_means() {
        let log =
            Log::new(Framework::Ours, true).with(Column::Loss, 10, |i| if i == 3 { f64::NAN } else { 2.0 });
        assert_eq!(log.recent(Column::Loss).expect("nine").mean(), 2.0);
        let log = Log::new(Framework::Ours, true).with(Column::Loss, 10, |_| f64::NAN);
        assert_eq!(log.recent(Column::Loss), None);
    }
}
