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
//! | `response_ratio_k3` | `s (e^-d - 1 + d)`, `s` the geometric mean of the response's `rho` | `KL(pi \|\| ref)` | not that of a KL |
//! | `abs` | `\|d\|` | not a KL | not that of a KL |
//! | `k1_k2`, `k3_k2` | `d`, `k3` | `KL(pi \|\| ref)` | grad `KL(pi \|\| ref)`: the gradient is that of `k2` |
//!
//! The expectations are exact statements, tested by enumeration (claim `kl_estimators`).
//!
//! Source: Schulman's k1, k2, k3; `ratio_k3` is TRL's `use_bias_correction_kl`, and `response_ratio_k3` the same under
//! `importance_sampling_level="sequence"`; `abs`, `k1_k2` and `k3_k2` are verl's `abs`, `k1+`, `k3+`.

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
    /// `s k3` with `s` the geometric mean of the ratios of the response, differentiated through `s` too. A single token is a response of its own in
    /// [`Kl::at`].
    ResponseRatioK3,
    /// `|d|`, with slope 0 at 0.
    Abs,
    /// The value of `k1` with the gradient of `k2`.
    K1K2,
    /// The value of `k3` with the gradient of `k2`.
    K3K2,
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
        self.at_around(logp, logp, old_logp, ref_logp)
    }

    /// [`Kl::at`] where stopped gradients hold the numbers they have at log-probability `frozen`.
    pub fn at_around(self, logp: f64, frozen: f64, old_logp: f64, ref_logp: f64) -> ValueAndSlope {
        let d = logp - ref_logp;
        // The value of an estimator at `frozen`, and from there on k2.
        let along_k2 = |estimator: Kl| {
            let (held, k2) = (estimator.at(frozen, old_logp, ref_logp), Kl::K2.at(logp, old_logp, ref_logp));
            let change = k2.value - Kl::K2.at(frozen, old_logp, ref_logp).value;
            ValueAndSlope { value: held.value + change, slope: k2.slope }
        };
        let k3 = || {
            if -d > LOG_RATIO_LIMIT {
                let inverse = exp_tangent(-d);
                return ValueAndSlope { value: inverse.value - 1.0 + d, slope: 1.0 - inverse.slope };
            }
            // expm1 keeps the value (it is d^2/2) and the slope (it is d) accurate when the two policies are close.
            let inverse_minus_one = (-d).exp_m1();
            ValueAndSlope { value: inverse_minus_one + d, slope: -inverse_minus_one }
        };
        match self {
            Kl::K1 => ValueAndSlope { value: d, slope: 1.0 },
            Kl::K2 => ValueAndSlope { value: 0.5 * d * d, slope: d },
            Kl::K3 => k3(),
            Kl::Abs => ValueAndSlope { value: d.abs(), slope: if d == 0.0 { 0.0 } else { d.signum() } },
            Kl::K1K2 => along_k2(Kl::K1),
            Kl::K3K2 => along_k2(Kl::K3),
            Kl::RatioK3 | Kl::ResponseRatioK3 => {
                let (ratio, k3) = (exp_tangent(logp - old_logp), k3());
                ValueAndSlope {
                    value: ratio.value * k3.value,
                    slope: ratio.slope * k3.value + ratio.value * k3.slope,
                }
            }
        }
    }

    /// The estimate of a token, and the ratio of the response that multiplies it; none for those that have none.
    pub(crate) fn of_token(self, logps: &[f64], old: &[f64]) -> (Kl, Option<f64>) {
        let mean = || logps.iter().zip(old).map(|(logp, old)| logp - old).sum::<f64>() / logps.len() as f64;
        match self {
            Kl::ResponseRatioK3 => (Kl::K3, Some(exp_tangent(mean()).value)),
            of_token => (of_token, None),
        }
    }

    /// The estimates of a response. A slope is that of the token's own term; the ratio of the response in [`Kl::ResponseRatioK3`], whose derivative by
    /// each log-probability is `value / T` more, stands still in it.
    pub fn of_response(
        self,
        logps: &[f64],
        frozen: &[f64],
        old: &[f64],
        reference: &[f64],
    ) -> Vec<ValueAndSlope> {
        let (kl, ratio) = self.of_token(logps, old);
        let ratio = ratio.unwrap_or(1.0);
        let scaled =
            |term: ValueAndSlope| ValueAndSlope { value: ratio * term.value, slope: ratio * term.slope };
        let tokens = logps.iter().zip(frozen).zip(old).zip(reference);
        tokens.map(|(((logp, frozen), old), r)| scaled(kl.at_around(*logp, *frozen, *old, *r))).collect()
    }

    /// The estimate of a token as an equation, `kl_t = ..`.
    pub fn equation(self) -> &'static str {
        match self {
            Kl::K1 => "kl_t = d_t (k1), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)",
            Kl::K2 => "kl_t = d_t^2 / 2 (k2), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)",
            Kl::K3 => "kl_t = exp(-d_t) - 1 + d_t (k3), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)",
            Kl::Abs => "kl_t = |d_t|, d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)",
            Kl::K1K2 => {
                "kl_t = d_t (k1) with the gradient of d_t^2 / 2 (k2), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)"
            }
            Kl::K3K2 => {
                "kl_t = exp(-d_t) - 1 + d_t (k3) with the gradient of d_t^2 / 2 (k2), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)"
            }
            Kl::ResponseRatioK3 => {
                "kl_t = exp((1/T_i) sum_k x_k) (exp(-d_t) - 1 + d_t) (ratio of the response times k3), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)"
            }
            Kl::RatioK3 => {
                "kl_t = exp(x_t) (exp(-d_t) - 1 + d_t) (ratio times k3), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)"
            }
        }
    }
}
