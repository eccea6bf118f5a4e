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
