//! Scalar surrogates: the loss of one token as a function of its (trace) log-ratio, with its slope.
//!
//! All are to be minimised. `A` is the token's advantage, `rho = exp(z)` its ratio.

mod tangent;

pub(crate) use tangent::exp_bounded;
pub use tangent::{LOG_RATIO_LIMIT, ValueAndSlope, exp_tangent};

use crate::equation::number;
use tangent::continue_tangent;

/// A token's policy loss as a function of its ratio.
///
/// At a kink the slope is that of the unclipped branch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Surrogate {
    /// PPO's pessimistic clip, with separate bounds:
    ///
    /// ```text
    /// l = -min(rho A, clip(rho, 1-low, 1+high) A)
    /// A > 0: no gradient above 1+high;   A < 0: no gradient below 1-low
    /// ```
    /// Source: PPO; GRPO-lambda's main text; separate bounds from DAPO.
    Clip {
        /// `epsilon_low`, in `[0, 1]`.
        low: f64,
        /// `epsilon_high`, at least 0.
        high: f64,
    },
    /// What GRPO-lambda's Algorithms 1 and 2 print: `l = -min(rho, clip(rho, 1-low, 1+high)) A = -min(rho, 1+high) A`.
    ///
    /// The same as PPO's for `A > 0`. For `A < 0` the gradient stays on below `1-low`, where PPO stops pushing, and is
    /// off above `1+high`, where PPO corrects (erratum E3). `low` has no effect at all.
    Printed {
        /// `epsilon_high`, at least 0.
        high: f64,
    },
    /// PPO's clip with the unclipped branch capped at `delta`: `l = -min(min(rho, delta) A, clip(rho, 1-low, 1+high) A)`.
    ///
    /// Bounds the loss of a negative advantage with a runaway ratio. Source: TRL's `delta` (two-sided clipping).
    TwoSided {
        /// `epsilon_low`, in `[0, 1]`.
        low: f64,
        /// `epsilon_high`, at least 0.
        high: f64,
        /// The cap, at least `1 + high`.
        delta: f64,
    },
    /// No clip: `l = -rho A`.
    Unclipped,
    /// CISPO: the clipped ratio is a held weight on the log-probability, `l = -sg(clip(rho, low, high)) A log pi`.
    ///
    /// Every token keeps a gradient, whatever its ratio; [`Region`] says which bound its weight sits on. The bounds are absolute:
    /// TRL has `low = 0`, verl `[1-epsilon_low, 1+epsilon_high]`. Source: MiniMax-M1; TRL and verl `cispo`.
    Detached {
        /// Smallest weight, in `[0, 1]`.
        low: f64,
        /// Largest weight, at least 1.
        high: f64,
    },
}

/// Which bound of the clip decided a token's loss. "No gradient" but for [`Surrogate::Detached`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// The ratio itself; the gradient flows.
    Free,
    /// The lower bound; no gradient.
    Low,
    /// The upper bound (or the two-sided cap); no gradient.
    High,
}

/// A surrogate evaluated at one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenLoss {
    /// Loss, with its slope in the log-ratio.
    pub loss: ValueAndSlope,
    /// The ratio it was evaluated at.
    pub ratio: f64,
    /// The branch that decided.
    pub region: Region,
}

impl Surrogate {
    /// Which branch decides at ratio `rho` with advantage `a`.
    pub fn region(&self, rho: f64, a: f64) -> Region {
        self.bound(rho, a).map_or(Region::Free, |(region, _)| region)
    }

    /// The bound that decides at ratio `rho` with advantage `a`, and its value; none where the ratio itself does.
    fn bound(&self, rho: f64, a: f64) -> Option<(Region, f64)> {
        let above = |bound: f64| (rho > bound).then_some((Region::High, bound));
        let below = |bound: f64| (rho < bound).then_some((Region::Low, bound));
        match *self {
            Surrogate::Unclipped => None,
            Surrogate::Detached { low, high } => below(low).or_else(|| above(high)),
            Surrogate::Printed { high } => above(1.0 + high),
            Surrogate::Clip { high, .. } | Surrogate::TwoSided { high, .. } if a > 0.0 => above(1.0 + high),
            Surrogate::Clip { low, .. } if a < 0.0 => below(1.0 - low),
            Surrogate::TwoSided { low, delta, .. } if a < 0.0 => above(delta).or_else(|| below(1.0 - low)),
            Surrogate::Clip { .. } | Surrogate::TwoSided { .. } => None,
        }
    }

    /// The loss of [`Surrogate::Detached`] at `logp = log pi`, its weight taken at the log-ratio `frozen`; none for the others.
    ///
    /// ```
    /// use grpo_lambda::surrogate::Surrogate;
    /// let cispo = Surrogate::Detached { low: 0.0, high: 5.0 };
    /// let token = cispo.detached(10f64.ln(), -0.5, 2.0).unwrap(); // ratio 10, weight 5
    /// assert_eq!((token.loss.value, token.loss.slope), (5.0, -10.0));
    /// ```
    pub fn detached(&self, frozen: f64, logp: f64, a: f64) -> Option<TokenLoss> {
        match self {
            Surrogate::Detached { .. } => Some(self.weighted(exp_tangent(frozen).value, logp, a)),
            _ => None,
        }
    }

    /// `-w A x` with the clipped ratio as the weight `w`.
    fn weighted(&self, ratio: f64, x: f64, a: f64) -> TokenLoss {
        let (region, weight) = self.bound(ratio, a).unwrap_or((Region::Free, ratio));
        let loss = ValueAndSlope { value: -weight * a * x, slope: -weight * a };
        TokenLoss { loss, ratio, region }
    }

    /// The loss at log-ratio `z` with advantage `a`.
    ///
    /// [`Surrogate::Detached`] is a function of `log pi = z + log pi_old`, which `z` gives up to a constant: its value here is
    /// `-w A z` with the weight `w` at this ratio, its slope and region are those of [`Surrogate::detached`].
    ///
    /// ```
    /// use grpo_lambda::surrogate::Surrogate;
    /// let clip = Surrogate::Clip { low: 0.2, high: 0.2 };
    /// assert_eq!(clip.at(0.0, 2.0).loss.value, -2.0);          // ratio 1: -A
    /// assert_eq!(clip.at(1.5_f64.ln(), 2.0).loss.slope, 0.0);  // above 1.2 with A > 0: no gradient
    /// ```
    pub fn at(&self, z: f64, a: f64) -> TokenLoss {
        self.at_exp(z, exp_bounded(z), a)
    }

    /// [`Surrogate::at`] with `e = exp_bounded(z)` at hand.
    pub(crate) fn at_exp(&self, z: f64, e: f64, a: f64) -> TokenLoss {
        let ValueAndSlope { value: ratio, slope } = continue_tangent(z, e);
        if let Surrogate::Detached { .. } = self {
            return self.weighted(ratio, z, a);
        }
        let (region, loss) = match self.bound(ratio, a) {
            None => (Region::Free, ValueAndSlope { value: -a * ratio, slope: -a * slope }),
            Some((region, bound)) => (region, ValueAndSlope { value: -a * bound, slope: 0.0 }),
        };
        TokenLoss { loss, ratio, region }
    }

    /// The loss of a token with ratio `rho_t`, without `l_t =`.
    pub fn equation(&self) -> String {
        let clip =
            |low: f64, high: f64| format!("clip(rho_t, {}, {})", number(1.0 - low), number(1.0 + high));
        match *self {
            Surrogate::Clip { low, high } => format!("-min(rho_t delta_t, {} delta_t)", clip(low, high)),
            Surrogate::Printed { high } => format!("-min(rho_t, {}) delta_t", number(1.0 + high)),
            Surrogate::TwoSided { low, high, delta } => {
                format!("-min(min(rho_t, {}) delta_t, {} delta_t)", number(delta), clip(low, high))
            }
            Surrogate::Unclipped => "-rho_t delta_t".to_owned(),
            Surrogate::Detached { low, high } => {
                let weight = format!("sg(clip(rho_t, {}, {}))", number(low), number(high));
                format!("-{weight} delta_t log pi(a_t|s_t), the gradient taking sg(..) as constant")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_by_hand() {
        let ppo = Surrogate::Clip { low: 0.2, high: 0.28 };
        let printed = Surrogate::Printed { high: 0.28 };
        let two = Surrogate::TwoSided { low: 0.2, high: 0.28, delta: 2.0 };
        // (ratio, advantage, PPO, printed, two-sided)
        for (rho, a, p, l, t) in [
            (0.5, 1.0, Region::Free, Region::Free, Region::Free),
            (1.5, 1.0, Region::High, Region::High, Region::High),
            (0.5, -1.0, Region::Low, Region::Free, Region::Low),
            (1.5, -1.0, Region::Free, Region::High, Region::Free),
            (2.5, -1.0, Region::Free, Region::High, Region::High),
        ] {
            assert_eq!(
                (ppo.region(rho, a), printed.region(rho, a), two.region(rho, a)),
                (p, l, t),
                "{rho} {a}"
            );
        }
    }

    #[test]
    fn values_are_the_min_of_the_two_branches() {
        for (low, high, delta) in [(0.2, 0.2, 3.0), (0.0, 0.5, 1.6)] {
            for i in -40..=40 {
                for a in [-2.0, -0.1, 0.0, 0.7] {
                    let z = f64::from(i) * 0.05;
                    let rho = z.exp();
                    let clipped = rho.clamp(1.0 - low, 1.0 + high);
                    let close = |s: Surrogate, want: f64| {
                        assert!((s.at(z, a).loss.value - want).abs() < 1e-14, "{s:?} {z} {a}")
                    };
                    close(Surrogate::Clip { low, high }, -(rho * a).min(clipped * a));
                    close(Surrogate::Printed { high }, -rho.min(clipped) * a);
                    close(Surrogate::TwoSided { low, high, delta }, -(rho.min(delta) * a).min(clipped * a));
                    close(Surrogate::Unclipped, -rho * a);
                }
            }
        }
    }

    #[test]
    fn a_detached_weight_has_one_slope_whether_read_in_the_log_ratio_or_in_log_pi() {
        let cispo = Surrogate::Detached { low: 0.5, high: 2.0 };
        let old = -0.7;
        for (z, weight, region) in
            [(-3.0f64, 0.5, Region::Low), (0.1, 0.1f64.exp(), Region::Free), (3.0, 2.0, Region::High)]
        {
            for a in [-1.5, 0.0, 2.0] {
                let (at, detached) = (cispo.at(z, a), cispo.detached(z, old + z, a).expect("detached"));
                assert_eq!((at.loss.slope, at.region, at.ratio), (-weight * a, region, detached.ratio));
                assert_eq!((detached.loss.slope, detached.region), (at.loss.slope, at.region));
                assert!((at.loss.value - detached.loss.value - weight * a * old).abs() < 1e-15);
            }
        }
        assert_eq!(Surrogate::Unclipped.detached(0.0, -0.7, 1.0), None);
    }
}
