//! The policy ratio that each token's surrogate sees: from the log-ratios of a response to it, and back to a gradient.
//!
//! ```text
//! x = log pi - log pi_old
//! L = sum_t w_t f_t l(z_t, A_t)          z = z(x) the logarithm of the ratio,  f = f(x) a factor in front of the loss, 1 for most
//! ```
//!
//! | ratio | `z_t` | `f_t` | gradient | used by |
//! | --- | --- | --- | --- | --- |
//! | [`TraceRatio`] | `(E x)_t` | 1 | through `E` | GRPO (`E = 1`), GRPO-lambda, GSPO, P-trace |
//! | [`TraceWeight`] | `x_t` | soft-clamped trace weight | through `x`, and `f` if asked | GRPO-lambda's epsilon-weight |
//! | [`StraightThrough`] | `(E sg x)_t + x_t - sg x_t` | 1 | through the token alone | GSPO-token |
//! | [`HistoryWeight`] | `x_t` | `exp(sum_{k<t} q^(t-k) x_k)` | through `x`, and `f` if asked | P-trace, option A |
//! | [`ClippedTrace`] | `(E log clip(e^x))_t` | 1 | through `E` where `x` is inside the clip | P-trace, option D |
//! | [`ClippedMean`] | mean of log-ratios, each clipped on the side of its advantage | 1 | through the log-ratios inside | GMPO |
//! | [`GammaWeight`] | `x_t` | a gamma density of the response's whole ratio | through `x` | VESPO |
//! | [`HeldWeight`] | `x_t` | the response's whole ratio, clipped | through `x` | TOPR, verl |
//! | [`FutureWeight`] | `x_t` | `clip(exp(sum_{k>=t} q^(k-t) x_k))` | through `x` | FIPO |
//! | [`SelectiveTrace`] | `(E_h x)_t`, `E_h` restricted to chosen tokens | 1 | through `E_h` | S-trace |
//!
//! `sg` is a stopped gradient: a number that is frozen while the loss is differentiated.

mod clipped_mean;
mod clipped_trace;
mod future_weight;
mod gamma_weight;
mod held_weight;
mod history_weight;
mod selective_trace;
mod straight_through;
mod trace_ratio;
mod trace_weight;

pub use clipped_mean::ClippedMean;
pub use clipped_trace::ClippedTrace;
pub use future_weight::FutureWeight;
pub use gamma_weight::{Gamma, GammaWeight};
pub use held_weight::HeldWeight;
pub use history_weight::HistoryWeight;
pub use selective_trace::SelectiveTrace;
pub use straight_through::StraightThrough;
pub use trace_ratio::TraceRatio;
pub use trace_weight::TraceWeight;

use crate::equation::Part;
use crate::group::Group;
use crate::method::Coupling;

/// The definition of `x_t` in equations.
pub(crate) const LOG_RATIO: &str = "x_t = log pi(a_t|s_t) - log pi_old(a_t|s_t)";

/// The log-probabilities of one response, as a ratio reads them. All lists have length `T`.
#[derive(Clone, Copy, Debug)]
pub struct LogProbs<'a> {
    /// Current `log pi(a_t|s_t)`, which the loss is differentiated by.
    pub logps: &'a [f64],
    /// `log pi_old(a_t|s_t)`.
    pub old: &'a [f64],
    /// The log-probabilities inside stopped gradients. In training they are `logps`; a test that differentiates numerically keeps them fixed.
    pub frozen: &'a [f64],
    /// Advantage of every token, constant in the parameters.
    pub advantages: &'a [f64],
    /// The tokens the trace may read, if the ratio chose some.
    pub eligible: Option<&'a [bool]>,
}

impl LogProbs<'_> {
    /// The log-ratios `x`.
    pub fn log_ratios(&self) -> Vec<f64> {
        self.logps.iter().zip(self.old).map(|(new, old)| new - old).collect()
    }

    /// The log-ratios inside stopped gradients.
    pub fn frozen_log_ratios(&self) -> Vec<f64> {
        self.frozen.iter().zip(self.old).map(|(new, old)| new - old).collect()
    }
}

/// The surrogate's argument for every token of a response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SurrogateInput {
    /// `z`: the log-ratio of each token's surrogate.
    pub z: Vec<f64>,
    /// `f`: what each token's loss is multiplied by; none where that is 1.
    pub factors: Option<Vec<f64>>,
    /// The logarithms of `factors` where those are exponentials, to report how far they reach.
    pub log_factors: Option<Vec<f64>>,
    /// The values that [`PolicyRatio::backward`] needs.
    pub saved: Vec<f64>,
    /// Tokens whose own log-ratio was clipped before it entered `z`: below and above.
    pub clipped: (usize, usize),
    /// Length `T`, for any use: it spares an allocation.
    pub buffer: Vec<f64>,
}

/// A policy ratio per token as a function of a response's log-probabilities, with its adjoint.
pub trait PolicyRatio: Send + Sync + std::fmt::Debug {
    /// `z` and `f` of every token of a response.
    ///
    /// # Panics
    /// If lengths differ.
    fn forward(&self, logps: &LogProbs) -> SurrogateInput;

    /// `d L / d log pi(a_k|s_k)` of every token, from what [`forward`](PolicyRatio::forward) returned.
    ///
    /// `slopes[t] = w_t f_t dl/dz_t`; `values[t] = w_t l_t` is what `f_t` multiplies, and empty where there is no `f`.
    ///
    /// # Panics
    /// If lengths differ.
    fn backward(&self, logps: &LogProbs, input: SurrogateInput, slopes: Vec<f64>, values: &[f64])
    -> Vec<f64>;

    /// The definition of `l_t` with its numbers, outermost first; `loss` is the surrogate's, a function of `rho_t` and `delta_t`.
    fn equation(&self, loss: &str) -> Vec<Part>;

    /// Chooses the tokens a trace may read, in every response of a batch in flat order; none chooses all.
    ///
    /// `counts[i]` says whether response `i` takes part in a threshold; no token of another is chosen.
    fn select(&self, batch: &[Group], counts: &[bool]) -> Option<Vec<Vec<bool>>> {
        let _ = (batch, counts);
        None
    }

    /// True if [`PolicyRatio::select`] looks at a response's own tokens or extra inputs.
    fn reads_tokens(&self) -> bool {
        false
    }

    /// The way in which other responses enter through [`PolicyRatio::select`].
    fn coupling(&self) -> Coupling {
        Coupling::Rewards
    }

    /// The length of the longest response the ratio is defined for, in tokens; none where it is not bounded.
    fn max_len(&self) -> Option<usize> {
        None
    }
}
