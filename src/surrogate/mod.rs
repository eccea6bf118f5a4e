//! Scalar surrogates: the loss of one token as a function of its (trace) log-ratio, with its slope.
//!
//! All are to be minimised. `A` is the token's advantage, `rho = exp(z)` its ratio.

mod divergence;
mod tangent;

pub use divergence::Divergence;
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
    /// The form that GRPO-lambda's Algorithms 1 and 2 print: `l = -min(rho, clip(rho, 1-low, 1+high)) A = -min(rho, 1+high) A`.
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
    /// REINFORCE: `l = -A log pi`. The ratio does not enter. Source: GPG; verl `gpg`.
    Score,
    /// REINFORCE with a held weight where `A <= 0`: `l = -sg(w) A log pi`, `w = 1` where `A > 0`, else `min(rho, 1)`. Source: ROLL `topr`.
    Tapered,
    /// A soft gate in place of the clip, with a temperature for each sign of the advantage:
    ///
    /// ```text
    /// l = -(4/tau) sigma(tau (rho - 1)) A,      tau = positive where A > 0, negative elsewhere
    /// ```
    /// The slope at ratio 1 is `-A`, and it falls smoothly to 0 on both sides. Source: SAPO, arXiv 2511.20347; TRL and verl `sapo`.
    SoftGate {
        /// Temperature where `A > 0`, positive.
        positive: f64,
        /// Temperature where `A <= 0`, positive.
        negative: f64,
    },
    /// REINFORCE with a quadratic pull to the policy that sampled: `l = -A log pi + (beta/2) x^2`, `x` the log-ratio.
    ///
    /// Source: Direct Reward Optimisation, arXiv 2405.19107; verl `dro`.
    Quadratic {
        /// `beta`, at least 0.
        beta: f64,
    },
    /// DPPO: the ratio, cut at `cap` and held, weighs `log pi`; a token whose probability has moved too far loses its gradient.
    ///
    /// ```text
    /// l = -sg(min(rho, cap)) m A log pi
    /// m = 0 where A > 0 and the probability rose by more than a divergence of high, or A <= 0 and it fell by more than low
    /// ```
    /// Where `log pi_old` itself is not known ([`Surrogate::at`]), `m` is 1. Source: arXiv 2602.04879; verl `dppo_tv`, `dppo_kl`.
    TrustRegion {
        /// The measure of a probability's move.
        divergence: Divergence,
        /// Largest divergence downwards, at least 0.
        low: f64,
        /// Largest divergence upwards, at least 0.
        high: f64,
        /// Largest weight, at least 1.
        cap: f64,
    },
}

/// The log-probabilities of one token, for a surrogate that reads more than their ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenLogps {
    /// `log pi(a_t|s_t)`, which the loss is differentiated by.
    pub logp: f64,
    /// `log pi_old(a_t|s_t)`.
    pub old: f64,
    /// `log pi(a_t|s_t)` inside stopped gradients.
    pub frozen: f64,
}

/// The bound of the clip that decided a token's loss. "No gradient" but for [`Surrogate::Detached`] and the cap of [`Surrogate::TrustRegion`].
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
    /// The branch that decides at ratio `rho` with advantage `a`.
    pub fn region(&self, rho: f64, a: f64) -> Region {
        self.bound(rho, a).map_or(Region::Free, |(region, _)| region)
    }

    /// The bound that decides at ratio `rho` with advantage `a`, and its value; none where the ratio itself does.
    fn bound(&self, rho: f64, a: f64) -> Option<(Region, f64)> {
        let above = |bound: f64| (rho > bound).then_some((Region::High, bound));
        let below = |bound: f64| (rho < bound).then_some((Region::Low, bound));
        match *self {
            Surrogate::Unclipped
            | Surrogate::Score
            | Surrogate::SoftGate { .. }
            | Surrogate::Quadratic { .. } => None,
            Surrogate::Tapered => None,
            Surrogate::TrustRegion { cap, .. } => above(cap),
            Surrogate::Detached { low, high } => below(low).or_else(|| above(high)),
            Surrogate::Printed { high } => above(1.0 + high),
            Surrogate::Clip { high, .. } | Surrogate::TwoSided { high, .. } if a > 0.0 => above(1.0 + high),
            Surrogate::Clip { low, .. } if a < 0.0 => below(1.0 - low),
            Surrogate::TwoSided { low, delta, .. } if a < 0.0 => above(delta).or_else(|| below(1.0 - low)),
            Surrogate::Clip { .. } | Surrogate::TwoSided { .. } => None,
        }
    }

    /// The loss of a surrogate that reads `log pi` itself; none for those that are functions of the ratio.
    ///
    /// ```
    /// use grpo_lambda::surrogate::{Surrogate, TokenLogps};
    /// let cispo = Surrogate::Detached { low: 0.0, high: 5.0 };
    /// let at = TokenLogps { logp: -0.5, old: -0.5 - 10f64.ln(), frozen: -0.5 }; // ratio 10, weight 5
    /// let token = cispo.of_logps(&at, 2.0).unwrap();
    /// assert_eq!((token.loss.value, token.loss.slope), (5.0, -10.0));
    /// ```
    pub fn of_logps(&self, at: &TokenLogps, a: f64) -> Option<TokenLoss> {
        let ratio = || exp_tangent(at.frozen - at.old).value;
        match *self {
            Surrogate::Detached { .. } => Some(self.weighted(ratio(), at.logp, a)),
            Surrogate::Score => {
                let loss = ValueAndSlope { value: -a * at.logp, slope: -a };
                Some(TokenLoss { loss, ratio: ratio(), region: Region::Free })
            }
            Surrogate::Tapered => {
                let weight = tapered(ratio(), a);
                let loss = ValueAndSlope { value: -weight * a * at.logp, slope: -weight * a };
                Some(TokenLoss { loss, ratio: ratio(), region: Region::Free })
            }
            Surrogate::Quadratic { beta } => {
                let x = at.logp - at.old;
                let loss = ValueAndSlope { value: 0.5 * beta * x * x - a * at.logp, slope: beta * x - a };
                Some(TokenLoss { loss, ratio: ratio(), region: Region::Free })
            }
            Surrogate::TrustRegion { divergence, low, high, .. } => {
                let moved = divergence.between(at.frozen, at.old);
                // A probability above 1, which only a density has, gives no number for a KL: that is outside, too.
                let beyond = |bound: f64| moved.is_nan() || moved > bound;
                let left = match a > 0.0 {
                    true => (at.frozen > at.old && beyond(high)).then_some(Region::High),
                    false => (at.frozen < at.old && beyond(low)).then_some(Region::Low),
                };
                let inside = || self.weighted(ratio(), at.logp, a);
                Some(left.map_or_else(inside, |region| TokenLoss {
                    loss: ValueAndSlope::default(),
                    ratio: ratio(),
                    region,
                }))
            }
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
    /// A surrogate of `log pi = z + log pi_old` is known by `z` up to a constant: here `z` stands for `log pi` in it, slope and region are
    /// those of [`Surrogate::of_logps`].
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
        let free = |value: f64, slope: f64| TokenLoss {
            loss: ValueAndSlope { value, slope },
            ratio,
            region: Region::Free,
        };
        match *self {
            Surrogate::Detached { .. } | Surrogate::TrustRegion { .. } => return self.weighted(ratio, z, a),
            Surrogate::Score => return free(-a * z, -a),
            Surrogate::Tapered => return free(-tapered(ratio, a) * a * z, -tapered(ratio, a) * a),
            Surrogate::Quadratic { beta } => return free(0.5 * beta * z * z - a * z, beta * z - a),
            Surrogate::SoftGate { positive, negative } => {
                let tau = if a > 0.0 { positive } else { negative };
                let (gate, steepness) = sigmoid(tau * (ratio - 1.0));
                return free(-4.0 / tau * gate * a, -4.0 * steepness * slope * a);
            }
            _ => {}
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
            Surrogate::Tapered => "-sg(w_t) delta_t log pi(a_t|s_t), w_t = 1 where delta_t > 0, else min(rho_t, 1); the gradient takes sg(..) as constant".to_owned(),
            Surrogate::Score => "-delta_t log pi(a_t|s_t)".to_owned(),
            Surrogate::SoftGate { positive, negative } => format!(
                "-(4/tau) sigma(tau (rho_t - 1)) delta_t, tau = {} where delta_t > 0, else {}",
                number(positive),
                number(negative)
            ),
            Surrogate::Quadratic { beta } => {
                format!("-delta_t log pi(a_t|s_t) + ({}/2) x_t^2", number(beta))
            }
            Surrogate::TrustRegion { divergence, low, high, cap } => format!(
                "-sg(min(rho_t, {}) m_t) delta_t log pi(a_t|s_t), the gradient taking sg(..) as constant; m_t = 0 where delta_t > 0 and \
                 pi(a_t|s_t) rose by D > {}, or delta_t <= 0 and it fell by D > {}, else 1; {}",
                number(cap),
                number(high),
                number(low),
                divergence.equation()
            ),
        }
    }
}

/// The weight of [`Surrogate::Tapered`].
fn tapered(ratio: f64, a: f64) -> f64 {
    if a > 0.0 { 1.0 } else { ratio.min(1.0) }
}

/// The logistic function with its derivative, which keeps its digits where the function is near 1.
fn sigmoid(u: f64) -> (f64, f64) {
    let e = (-u.abs()).exp();
    let value = if u >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) };
    (value, e / (1.0 + e).powi(2))
}
