//! The clip forms as functions of ratio and advantage.

use grpo_lambda::surrogate::{Surrogate, ValueAndSlope};

pub(super) const EPSILON: f64 = 0.2;
const CAP: f64 = 1.6;

pub(super) const PPO: Surrogate = Surrogate::Clip { low: EPSILON, high: EPSILON };
pub(super) const PRINTED: Surrogate = Surrogate::Printed { high: EPSILON };
pub(super) const TWO_SIDED: Surrogate = Surrogate::TwoSided { low: EPSILON, high: EPSILON, delta: CAP };

/// Loss of one token, with its derivative with respect to `log π`.
pub(super) fn loss(form: Surrogate, ratio: f64, advantage: f64) -> ValueAndSlope {
    form.at(ratio.ln(), advantage).loss
}

/// The ratios of the maps; bounds of the clip are not on the grid.
pub(super) fn ratios() -> Vec<f64> {
    (0..14).map(|i| 0.45 + 0.1 * f64::from(i)).collect()
}

/// The advantages of the maps, from the top.
pub(super) fn advantages() -> Vec<f64> {
    (-4..=4).rev().map(|i| 0.5 * f64::from(i)).collect()
}

/// The three forms at one ratio and advantage.
#[derive(Clone)]
pub(super) struct Point {
    pub(super) ratio: f64,
    pub(super) advantage: f64,
    pub(super) ppo: ValueAndSlope,
    pub(super) printed: ValueAndSlope,
    pub(super) two_sided: ValueAndSlope,
}

impl Point {
    pub(super) fn new(ratio: f64, advantage: f64) -> Point {
        let [ppo, printed, two_sided] = [PPO, PRINTED, TWO_SIDED].map(|form| loss(form, ratio, advantage));
        Point { ratio, advantage, ppo, printed, two_sided }
    }

    /// The largest difference of the printed form's loss and slope from PPO's.
    pub(super) fn apart(&self) -> f64 {
        let (a, b) = (self.ppo, self.printed);
        (a.value - b.value).abs().max((a.slope - b.slope).abs())
    }

    /// Whether the advantage is negative and the ratio outside the clip interval.
    pub(super) fn lowered_outside(&self) -> bool {
        self.advantage < 0.0 && !(1.0 - EPSILON..=1.0 + EPSILON).contains(&self.ratio)
    }

    /// How far the printed loss is from the formula of Algorithm 1, written out, and that from `-min(ratio, 1+ε) A`.
    pub(super) fn off_formula(&self) -> f64 {
        let (ratio, a) = (self.ratio, self.advantage);
        let literal = -ratio.min(ratio.clamp(1.0 - EPSILON, 1.0 + EPSILON)) * a;
        (self.printed.value - literal).abs().max((literal + ratio.min(1.0 + EPSILON) * a).abs())
    }
}
