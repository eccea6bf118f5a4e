//! Per-token estimators of `KL(pi || pi_ref)`, with their slopes.
//!
//! With `d = log pi(a|s) - log pi_ref(a|s)` of a sampled token:
//!
//! | name | value | `E_pi[value]` | `E_pi[gradient]` when differentiated as a loss, on-policy |
//! | --- | --- | --- | --- |
//! | `k1` | `d` | `KL(pi \|\| ref)` | 0: no regularisation at all |
//! | `k2` | `d^2 / 2` | not a KL | grad `KL(pi \|\| ref)` |
//! | `k3` | `e^-d - 1 + d` | `KL(pi \|\| ref)` | grad `KL(ref \|\| pi)`, the *forward* KL |
//! | `ratio_k3` | `rho (e^-d - 1 + d)` | `KL(pi \|\| ref)` | grad `KL(pi \|\| ref)` |
//!
//! The expectations are exact statements, tested by enumeration (claim `kl_estimators`).
//!
//! Source: Schulman's k1, k2, k3; `ratio_k3` is TRL's `use_bias_correction_kl`.

use crate::surrogate::{LOG_RATIO_LIMIT, ValueAndSlope, exp_tangent};

/// An estimator of `KL(pi || pi_ref)` from one sampled token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kl {
    /// `d`.
    K1,
    /// `d^2 / 2`.
    K2,
    /// `e^-d - 1 + d`, never negative.
    K3,
    /// `rho k3` with `rho = pi/pi_old`, differentiated through `rho` too.
    RatioK3,
}

impl Kl {
    /// Value, and slope with respect to `logp`.
    ///
    /// ```
    /// use grpo_lambda::kl::Kl;
    /// let k3 = Kl::K3.at(-1.0, -1.0, -2.0);                // d = 1
    /// assert!((k3.value - (-1.0f64).exp()).abs() < 1e-15); // e^-1 - 1 + 1
    /// assert!((k3.slope - (1.0 - (-1.0f64).exp())).abs() < 1e-15);
    /// ```
    pub fn at(self, logp: f64, old_logp: f64, ref_logp: f64) -> ValueAndSlope {
        let d = logp - ref_logp;
        let k3 = || {
            if -d > LOG_RATIO_LIMIT {
                let inverse = exp_tangent(-d);
                return ValueAndSlope { value: inverse.value - 1.0 + d, slope: 1.0 - inverse.slope };
            }
            // expm1 keeps the value (it is d^2/2) and the slope (it is d) accurate when the two policies are close.
            let inverse_less_one = (-d).exp_m1();
            ValueAndSlope { value: inverse_less_one + d, slope: -inverse_less_one }
        };
        match self {
            Kl::K1 => ValueAndSlope { value: d, slope: 1.0 },
            Kl::K2 => ValueAndSlope { value: 0.5 * d * d, slope: d },
            Kl::K3 => k3(),
            Kl::RatioK3 => {
                let (ratio, k3) = (exp_tangent(logp - old_logp), k3());
                ValueAndSlope {
                    value: ratio.value * k3.value,
                    slope: ratio.slope * k3.value + ratio.value * k3.slope,
                }
            }
        }
    }

    /// The estimate of a token as an equation, `kl_t = ..`.
    pub fn equation(self) -> &'static str {
        match self {
            Kl::K1 => "kl_t = d_t (k1), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)",
            Kl::K2 => "kl_t = d_t^2 / 2 (k2), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)",
            Kl::K3 => "kl_t = exp(-d_t) - 1 + d_t (k3), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)",
            Kl::RatioK3 => {
                "kl_t = exp(x_t) (exp(-d_t) - 1 + d_t) (ratio times k3), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)"
            }
        }
    }
}
