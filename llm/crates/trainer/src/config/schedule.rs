//! Learning-rate schedules: linear warm-up, then a shape.

use crate::words::words;

words! {
    /// Shape of the learning-rate schedule after warm-up.
    pub enum ScheduleShape {
        Constant = "constant",
        /// Falls linearly to 0.
        Linear = "linear",
        /// Falls to 0 along half a cosine.
        Cosine = "cosine",
    }
}

/// A learning rate for every step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// The highest rate.
    pub peak: f64,
    /// Steps of linear warm-up: step `k` (from 0) of them has `peak (k+1)/warmup`, so the first step already moves
    /// (in the transformers library it does not).
    pub warmup: u64,
    /// All steps, warm-up included; a falling shape reaches 0 here.
    pub steps: u64,
    pub shape: ScheduleShape,
}

impl Schedule {
    /// The rate of step `step`, counted from 0.
    ///
    /// ```
    /// use grpo_lambda_trainer::config::schedule::{Schedule, ScheduleShape};
    /// let s = Schedule { peak: 1.0, warmup: 2, steps: 6, shape: ScheduleShape::Linear };
    /// assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|k| s.rate(k)), [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]);
    /// ```
    pub fn rate(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.peak * (step + 1) as f64 / self.warmup as f64;
        }
        let left = self.steps.saturating_sub(self.warmup);
        let progress = if left == 0 { 0.0 } else { ((step - self.warmup) as f64 / left as f64).min(1.0) };
        let factor = match self.shape {
            ScheduleShape::Constant => 1.0,
            ScheduleShape::Linear => 1.0 - progress,
            ScheduleShape::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
        };
        self.peak * factor
    }
}
