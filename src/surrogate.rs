//! Scalar surrogates: the loss of one token as a function of its (trace) log-ratio, with its slope.
//!
//! All are to be minimised. `A` is the token's advantage, `rho = exp(z)` its ratio.

/// A value and its derivative with respect to the log-ratio `z`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Partial {
    /// The value.
    pub value: f64,
    /// `d value / d z`.
    pub slope: f64,
}

/// Log-ratio above which [`exp_tangent`] continues in a straight line.
///
/// `e^20 = 4.9e8`: far beyond any ratio a trust region could mean, and still small enough that sums over 16,384
/// tokens and an f32 cotangent hold it.
pub const LOG_RATIO_LIMIT: f64 = 20.0;

/// `exp(z)` up to [`LOG_RATIO_LIMIT`], its tangent above it; with its slope.
///
/// ```text
/// z <= 20   e^z                    slope e^z
/// z >  20   e^20 (1 + z - 20)      slope e^20
/// ```
/// A trace adds up log-ratios: 16,384 tokens at 20 nats each reach `z = 2 million` with `q` near 1, and `exp` overflows
/// to infinity from 710. Cutting the exponent off would make the gradient of a runaway token zero, exactly when it
/// should be pulled back; the tangent keeps the function continuously differentiable, every value finite and the
/// direction of the gradient right. Below the limit nothing changes. How many tokens lie beyond it is reported as
/// [`Metrics::saturated`](crate::metrics::Metrics::saturated). Downwards `exp` needs no care: it goes to 0.
pub fn exp_tangent(z: f64) -> Partial {
    continue_tangent(z, exp_bounded(z))
}

/// The exponential in [`exp_tangent`]: its slope.
pub(crate) fn exp_bounded(z: f64) -> f64 {
    z.min(LOG_RATIO_LIMIT).exp()
}

/// [`exp_tangent`] from its slope `e = exp_bounded(z)`.
fn continue_tangent(z: f64, e: f64) -> Partial {
    Partial { value: e * (1.0 + (z - LOG_RATIO_LIMIT).max(0.0)), slope: e }
}

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
pub struct Clipped {
    /// Loss, with its slope in the log-ratio.
    pub loss: Partial,
    /// The ratio it was evaluated at.
    pub ratio: f64,
    /// The branch that decided.
    pub region: Region,
}

impl Surrogate {
    /// Which branch is active at ratio `rho` with advantage `a`.
    pub fn region(&self, rho: f64, a: f64) -> Region {
        match *self {
            Surrogate::Unclipped => Region::Free,
            Surrogate::Detached { low, .. } if rho < low => Region::Low,
            Surrogate::Detached { high, .. } if rho > high => Region::High,
            Surrogate::Detached { .. } => Region::Free,
            Surrogate::Printed { high } if rho > 1.0 + high => Region::High,
            Surrogate::Printed { .. } => Region::Free,
            Surrogate::Clip { high, .. } if a > 0.0 && rho > 1.0 + high => Region::High,
            Surrogate::TwoSided { high, .. } if a > 0.0 && rho > 1.0 + high => Region::High,
            Surrogate::TwoSided { delta, .. } if a < 0.0 && rho > delta => Region::High,
            Surrogate::Clip { low, .. } | Surrogate::TwoSided { low, .. } if a < 0.0 && rho < 1.0 - low => {
                Region::Low
            }
            Surrogate::Clip { .. } | Surrogate::TwoSided { .. } => Region::Free,
        }
    }

    /// The loss of [`Surrogate::Detached`] at `logp = log pi`, with the weight held at log-ratio `held`; none for the others.
    ///
    /// ```
    /// use grpo_lambda::surrogate::Surrogate;
    /// let cispo = Surrogate::Detached { low: 0.0, high: 5.0 };
    /// let token = cispo.detached(10f64.ln(), -0.5, 2.0).unwrap(); // ratio 10, weight 5
    /// assert_eq!((token.loss.value, token.loss.slope), (5.0, -10.0));
    /// ```
    pub fn detached(&self, held: f64, logp: f64, a: f64) -> Option<Clipped> {
        let Surrogate::Detached { low, high } = *self else { return None };
        let ratio = exp_tangent(held).value;
        let weight = ratio.clamp(low, high);
        let loss = Partial { value: -weight * a * logp, slope: -weight * a };
        Some(Clipped { loss, ratio, region: self.region(ratio, a) })
    }

    /// The loss at log-ratio `z` with advantage `a`.
    ///
    /// # Panics
    /// For [`Surrogate::Detached`], whose weight is held at a log-ratio of its own.
    ///
    /// ```
    /// use grpo_lambda::surrogate::Surrogate;
    /// let clip = Surrogate::Clip { low: 0.2, high: 0.2 };
    /// assert_eq!(clip.at(0.0, 2.0).loss.value, -2.0);          // ratio 1: -A
    /// assert_eq!(clip.at(1.5_f64.ln(), 2.0).loss.slope, 0.0);  // above 1.2 with A > 0: no gradient
    /// ```
    pub fn at(&self, z: f64, a: f64) -> Clipped {
        self.at_exp(z, exp_bounded(z), a)
    }

    /// [`Surrogate::at`] with `e = exp_bounded(z)` at hand.
    ///
    /// # Panics
    /// For [`Surrogate::Detached`], which needs [`Surrogate::detached`].
    pub(crate) fn at_exp(&self, z: f64, e: f64, a: f64) -> Clipped {
        let Partial { value: ratio, slope } = continue_tangent(z, e);
        let region = self.region(ratio, a);
        let bound = match (region, *self) {
            (Region::Free, Surrogate::Detached { .. }) => panic!("a detached weight needs its own log-ratio"),
            (Region::Free, _) => {
                return Clipped { loss: Partial { value: -a * ratio, slope: -a * slope }, ratio, region };
            }
            (Region::Low, Surrogate::Clip { low, .. } | Surrogate::TwoSided { low, .. }) => 1.0 - low,
            (Region::High, Surrogate::TwoSided { delta, .. }) if a < 0.0 => delta,
            (
                _,
                Surrogate::Clip { high, .. } | Surrogate::TwoSided { high, .. } | Surrogate::Printed { high },
            ) => 1.0 + high,
            (_, Surrogate::Unclipped) => unreachable!("an unclipped ratio is always free"),
            (_, Surrogate::Detached { .. }) => panic!("a detached weight needs its own log-ratio"),
        };
        Clipped { loss: Partial { value: -a * bound, slope: 0.0 }, ratio, region }
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
    fn the_tangent_continues_exp_smoothly_and_stays_finite() {
        let (a, b) = (exp_tangent(LOG_RATIO_LIMIT - 1e-9), exp_tangent(LOG_RATIO_LIMIT + 1e-9));
        assert!((b.value - a.value - 2e-9 * a.slope).abs() / a.value < 1e-15);
        assert!(exp_tangent(1e7).value.is_finite());
        assert_eq!(exp_tangent(-1e7), Partial::default());
    }
}
