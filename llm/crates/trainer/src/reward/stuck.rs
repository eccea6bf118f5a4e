//! Detects a component that gives every response the same value step after step, and so gives no learning signal.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A component whose value has been constant for the configured number of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct StuckComponent {
    /// The component.
    pub name: String,
    /// Its value for every response; `None` if it had none.
    pub value: Option<f64>,
    /// Steps with this value.
    pub steps: u64,
}

impl fmt::Display for StuckComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StuckComponent { name, value, steps } = self;
        let what = match value {
            Some(x) => format!("was {x} for every response"),
            None => "had no value for any response".to_owned(),
        };
        write!(
            f,
            "warning: reward.{name} {what} of {steps} steps in a row, so it teaches nothing (samples.jsonl shows what it saw); \
             the column reward_stuck of the metrics counts such components from now on"
        )
    }
}

/// Counts for how long each component has been constant; part of a run's saved state.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct StuckDetector {
    streaks: BTreeMap<String, Streak>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
struct Streak {
    /// Its value for all responses of the last step.
    value: Option<f64>,
    /// Steps in a row in which it gave that, 0 when the last step had several values.
    steps: u64,
    /// The warning is given once per run.
    warned: bool,
}

impl StuckDetector {
    /// Records a component's values of a step; returns a warning the first time that they have been constant for `patience` steps (0:
    /// never).
    ///
    /// Values of responses that have none are passed over; a step in which no response has one counts as a value of its own.
    pub fn observe(
        &mut self,
        name: &str,
        values: impl Iterator<Item = Option<f64>>,
        patience: u64,
    ) -> Option<StuckComponent> {
        let known: Vec<f64> = values.flatten().collect();
        let streak = self.streaks.entry(name.to_owned()).or_default();
        let value = known.first().copied();
        if known.iter().any(|x| Some(*x) != value) {
            streak.steps = 0;
            return None;
        }
        streak.steps = if streak.steps > 0 && streak.value == value { streak.steps + 1 } else { 1 };
        streak.value = value;
        let due = patience > 0 && streak.steps >= patience && !streak.warned;
        due.then(|| {
            streak.warned = true;
            StuckComponent { name: name.to_owned(), value, steps: streak.steps }
        })
    }

    /// Number of components constant for `patience` steps or more; 0 if `patience` is 0.
    pub fn stuck(&self, patience: u64) -> usize {
        self.streaks.values().filter(|s| patience > 0 && s.steps >= patience).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(detector: &mut StuckDetector, steps: &[&[Option<f64>]]) -> Vec<Option<StuckComponent>> {
        steps.iter().map(|values| detector.observe("format", values.iter().copied(), 3)).collect()
    }

    #[test]
    fn a_constant_is_reported_once_and_counted_as_long_as_it_lasts() {
        let mut detector = StuckDetector::default();
        let same: &[Option<f64>] = &[Some(0.0), None, Some(0.0)];
        let found = steps(&mut detector, &[same, same, same, same]);
        let expected = StuckComponent { name: "format".into(), value: Some(0.0), steps: 3 };
        assert_eq!(found, [None, None, Some(expected), None]);
        assert_eq!((detector.stuck(3), detector.stuck(5), detector.stuck(0)), (1, 0, 0));
        let mixed: &[Option<f64>] = &[Some(0.0), Some(1.0)];
        assert_eq!(steps(&mut detector, &[mixed, same, same, same]), [None, None, None, None]);
        assert_eq!(detector.stuck(3), 1);
    }

    #[test]
    fn another_constant_and_a_missing_value_begin_anew() {
        let mut detector = StuckDetector::default();
        let (zero, one, none): (&[_], &[_], &[_]) = (&[Some(0.0)], &[Some(1.0)], &[None, None]);
        assert_eq!(
            steps(&mut detector, &[zero, zero, one, one, none, none]),
            [None, None, None, None, None, None]
        );
        let expected = StuckComponent { name: "format".into(), value: None, steps: 3 };
        assert_eq!(steps(&mut detector, &[none]), [Some(expected)]);
    }

    #[test]
    fn what_was_seen_survives_a_file_to_the_bit() {
        let mut detector = StuckDetector::default();
        let third: &[Option<f64>] = &[Some(1.0 / 3.0), Some(1.0 / 3.0)];
        steps(&mut detector, &[third, third]);
        let text = serde_json::to_string(&detector).expect("plain data");
        let mut again: StuckDetector = serde_json::from_str(&text).expect("its own text");
        assert_eq!(again, detector);
        assert_eq!(steps(&mut again, &[third]), steps(&mut detector, &[third]));
    }
}
