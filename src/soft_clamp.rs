//! Algorithm 2's substitute for `log pi`: the soft clamp `v = 1 + sigma(log pi - 1)` and the ways to read `w @ v`.
//!
//! The paper multiplies the loss of token `t` by `eps^w = w @ (1 + sigma(log pi - 1))`, because `w log pi` was unstable. As
//! printed, the replacement is always positive and nearly constant (in `(1, 1.269]`, slope at most 0.197), while `log pi` is
//! negative: its sign and size are not those of what it replaces (erratum E17). `@` has three variants (E16).

use crate::trace::Trace;

/// The variant of `w @ v`. `M` is the trace matrix, `w = M 1` its row sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// (a) Matrix times vector: `(M v)_t`. The default.
    Matrix,
    /// (b) Element by element: `w_t v_t`.
    Elementwise,
    /// (c) Inner product, one number for the whole response: `sum_k w_k v_k`.
    Inner,
}

/// The squashing function; the paper says tanh would do as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Squash {
    /// `1 + sigma(log pi - 1)`, in `(1, 1.269]`.
    Sigmoid,
    /// `1 + tanh(log pi - 1)`, in `(0, 0.239]`.
    Tanh,
}

/// The weights of epsilon-weight, as a function of current log-probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftClamp {
    /// The variant of `w @ v`.
    pub variant: Variant,
    /// The function that bounds `log pi`.
    pub squash: Squash,
    /// True if the gradient flows through `v`; the paper does not say.
    pub gradient: bool,
}

/// Weights of one response with what their gradient needs.
#[derive(Clone, Debug, PartialEq)]
pub struct SoftWeights {
    /// The factor of each token's loss.
    pub weights: Vec<f64>,
    /// `d v_t / d log pi_t`, which [`SoftClamp::add_gradient`] needs.
    pub slopes: Vec<f64>,
}

impl SoftClamp {
    fn squash(self, logp: f64) -> (f64, f64) {
        match self.squash {
            Squash::Sigmoid => {
                let s = 1.0 / (1.0 + (1.0 - logp).exp());
                (1.0 + s, s * (1.0 - s))
            }
            Squash::Tanh => {
                // 1 + tanh(x) as it keeps its digits where tanh(x) rounds to -1.
                let v = 2.0 / (1.0 + (2.0 - 2.0 * logp).exp());
                (v, v * (2.0 - v))
            }
        }
    }

    /// The weight of every token at `logps`.
    pub fn weights(self, trace: &dyn Trace, logps: &[f64]) -> SoftWeights {
        let (v, slopes): (Vec<f64>, Vec<f64>) = logps.iter().map(|&l| self.squash(l)).unzip();
        let rows = || trace.row_sums(v.len());
        let weights = match self.variant {
            Variant::Matrix => trace.apply(&v),
            Variant::Elementwise => rows().iter().zip(&v).map(|(w, v)| w * v).collect(),
            Variant::Inner => vec![rows().iter().zip(&v).map(|(w, v)| w * v).sum(); v.len()],
        };
        SoftWeights { weights, slopes }
    }

    /// Adds `sum_t values[t] d weights[t] / d log pi_k` to `dlogps[k]`, where `values[t]` is what
    /// weight `t` multiplies and `slopes` those of [`SoftWeights`].
    pub fn add_gradient(self, trace: &dyn Trace, slopes: &[f64], values: &[f64], dlogps: &mut [f64]) {
        if !self.gradient {
            return;
        }
        let len = values.len();
        let dv: Vec<f64> = match self.variant {
            Variant::Matrix => trace.adjoint(values),
            Variant::Elementwise => trace.row_sums(len).iter().zip(values).map(|(w, l)| w * l).collect(),
            Variant::Inner => {
                let total: f64 = values.iter().sum();
                trace.row_sums(len).iter().map(|w| w * total).collect()
            }
        };
        for k in 0..len {
            dlogps[k] += dv[k] * slopes[k];
        }
    }

    /// `u_t = ..`, what the loss of a token is multiplied by.
    pub fn equation(self) -> String {
        let weight = match self.variant {
            Variant::Matrix => "sum_k E[t,k] v_k",
            Variant::Elementwise => "v_t sum_k E[t,k]",
            Variant::Inner => "sum_j v_j sum_k E[j,k]",
        };
        let squash = match self.squash {
            Squash::Sigmoid => "sigma",
            Squash::Tanh => "tanh",
        };
        let gradient = if self.gradient { "flows through v" } else { "takes v as constant" };
        format!("u_t = {weight}, v_t = 1 + {squash}(log pi(a_t|s_t) - 1); the gradient {gradient}")
    }
}
