//! Where a trace enters the loss: from the log-ratios of a response to what the surrogate sees, and back.
//!
//! ```text
//! x = log pi - log pi_old
//! L = sum_t w_t f_t l(z_t, A_t)          z = z(x),  f = f(x) a factor in front of the loss, 1 for most
//! ```
//!
//! | update | `z_t` | `f_t` | gradient | used by |
//! | --- | --- | --- | --- | --- |
//! | [`TraceRatio`] | `(E x)_t` | 1 | through `E` | GRPO (`E = 1`), GRPO-lambda, GSPO, P-trace |
//! | [`FrontWeight`] | `x_t` | soft-clamped trace weight | through `x`, and `f` if asked | GRPO-lambda's epsilon-weight |
//! | [`Straight`] | `(E sg x)_t + x_t - sg x_t` | 1 | through the token alone | GSPO-token |
//! | [`History`] | `x_t` | `exp(sum_{k<t} q^(t-k) x_k)` | through `x`, and `f` if asked | P-trace, option A |
//! | [`ClippedTrace`] | `(E log clip(e^x))_t` | 1 | through `E` where `x` is inside the clip | P-trace, option D |
//! | [`Selective`] | `(E_h x)_t`, `E_h` restricted to chosen tokens | 1 | through `E_h` | S-trace |
//!
//! `sg` is a stopped gradient: a number that is held while the loss is differentiated.

mod clipped;
mod front;
mod history;
mod ratio;
mod selective;
mod straight;

pub use clipped::ClippedTrace;
pub use front::FrontWeight;
pub use history::History;
pub use ratio::TraceRatio;
pub use selective::{Clock, Selective, Sparse};
pub use straight::Straight;

use crate::equation::Part;
use crate::group::Group;
use crate::methods::Coupling;

/// The log-probabilities of one response, as an update reads them. All lists have length `T`.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// Current `log pi(a_t|s_t)`, which the loss is differentiated by.
    pub logps: &'a [f64],
    /// `log pi_old(a_t|s_t)`.
    pub old: &'a [f64],
    /// The log-probabilities inside stopped gradients; the same numbers as `logps` but when a test differentiates.
    pub frozen: &'a [f64],
    /// Which tokens the trace may read, where the update chose some.
    pub eligible: Option<&'a [bool]>,
}

impl Tokens<'_> {
    /// The log-ratios `x`.
    pub fn log_ratios(&self) -> Vec<f64> {
        self.logps.iter().zip(self.old).map(|(new, old)| new - old).collect()
    }

    /// The log-ratios inside stopped gradients.
    pub fn held(&self) -> Vec<f64> {
        self.frozen.iter().zip(self.old).map(|(new, old)| new - old).collect()
    }
}

/// What the surrogate sees of a response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Log-ratio of each token's surrogate.
    pub z: Vec<f64>,
    /// What each token's loss is multiplied by; none where that is 1.
    pub front: Option<Vec<f64>>,
    /// The logarithm of `front` where that is an exponential, to report how far it reaches.
    pub log_front: Option<Vec<f64>>,
    /// What [`Update::backward`] keeps for itself.
    pub kept: Vec<f64>,
    /// Tokens whose own log-ratio was clipped before it entered `z`: below and above.
    pub clipped: (usize, usize),
    /// A buffer of length `T` that is free for use.
    pub spare: Vec<f64>,
}

/// From log-ratios to what the surrogate sees, with its adjoint.
pub trait Update: Send + Sync + std::fmt::Debug {
    /// `z` and `f` of a response.
    ///
    /// # Panics
    /// If lengths differ.
    fn forward(&self, tokens: &Tokens) -> Seen;

    /// `d L / d log pi(a_k|s_k)`.
    ///
    /// `slopes[t] = w_t f_t dl/dz_t`; `values[t] = w_t l_t` is what `f_t` multiplies, and empty where there is no `f`.
    ///
    /// # Panics
    /// If lengths differ.
    fn backward(&self, tokens: &Tokens, seen: Seen, slopes: Vec<f64>, values: &[f64]) -> Vec<f64>;

    /// The definition of `l_t` with its numbers, outermost first; `loss` is the surrogate's, a function of `rho_t` and `delta_t`.
    fn equation(&self, loss: &str) -> Vec<Part>;

    /// Chooses the tokens a trace may read, in every response of a batch in flat order; none chooses all.
    ///
    /// `active[i]` says whether response `i` carries weight: masked responses are left out of every threshold.
    fn select(&self, batch: &[Group], active: &[bool]) -> Option<Vec<Vec<bool>>> {
        let _ = (batch, active);
        None
    }

    /// Whether [`Update::select`] looks at a response's own tokens or evidence.
    fn reads_tokens(&self) -> bool {
        false
    }

    /// How other responses enter through [`Update::select`].
    fn coupling(&self) -> Coupling {
        Coupling::Rewards
    }

    /// The longest response the update is defined for, where it is bounded.
    fn max_len(&self) -> Option<usize> {
        None
    }
}
