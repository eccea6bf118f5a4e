//! The trace: a linear operator `E` over the tokens of one response.
//!
//! ```text
//! z_t = (E x)_t = sum_k E[t,k] x_k          x_k = log pi(a_k|s_k) - log pi_old(a_k|s_k)
//! ratio_t = exp(z_t)                        the trace ratio of GRPO-lambda's Eq. 1 and Eq. 2
//! d loss/d x = E^T (d loss/d z)             the adjoint carries slopes back to tokens
//! ```
//!
//! Theorem 1 of GRPO-lambda is the identity `<delta, E grad> = <E^T delta, grad>` with `E` = [`Recent`]: it
//! moves the operator from one side of an inner product to the other.
//!
//! Every trace here has `apply` and `adjoint` in time linear in the length `T`; the dense matrix
//! exists only in tests and in [`dense`].
//!
//! | trace | `E[t,k]` | source |
//! | --- | --- | --- |
//! | [`Token`] | `1{k=t}` | PPO, GRPO |
//! | [`Recent`] | `q^(t-k) 1{k<=t}` | GRPO-lambda Eq. 1, 13-15 |
//! | [`Both`] | `max(q^(t-k), q^k) 1{k<=t}` | GRPO-lambda Eq. 2 |
//! | [`RowIndex`] | the two above with `max(floor, .)` off the diagonal | Eq. 17/18 with `n` read as the row |
//! | [`AsPrinted`] | depends on the column only, 1 on the diagonal | Eq. 17/18 literally |
//! | [`Sequence`] | `1/T`, not causal | GSPO |
//! | [`Product`] | `1`, not causal | TRL's RLOO |
//! | [`Sparse`] | `q^(t-k)` at chosen tokens `k`, 0 at others, 1 on the diagonal | S-trace, reconstructed |
//! | [`RowNormalised`] | any of them, each row divided by its sum | our ablation |

mod both;
mod normalised;
mod printed;
mod recent;
pub mod scan;
mod sequence;
mod sparse;
mod token;

pub use both::Both;
pub use normalised::RowNormalised;
pub use printed::{AsPrinted, RowIndex, Style};
pub use recent::Recent;
pub use sequence::{Product, Sequence};
pub use sparse::{Clock, Sparse};
pub use token::Token;

/// A linear map over the tokens of one response. It need not be causal.
///
/// Indices run from 0 to `len - 1`, `len` being the response's true length `T`; there is no padding.
pub trait Trace: Send + Sync + std::fmt::Debug {
    /// The matrix entry `E[t, k]`: how much token `k`'s log-ratio enters the trace at token `t`.
    ///
    /// The definition the linear-time maps are tested against.
    ///
    /// # Panics
    /// If `t` or `k` is not below `len`.
    fn weight(&self, t: usize, k: usize, len: usize) -> f64;

    /// `z = E x` in O(T), written into `z`.
    ///
    /// # Panics
    /// If `x` and `z` differ in length.
    fn apply_into(&self, x: &[f64], z: &mut [f64]);

    /// `g = E^T y` in O(T), written into `g`.
    ///
    /// # Panics
    /// If `y` and `g` differ in length.
    fn adjoint_into(&self, y: &[f64], g: &mut [f64]);

    /// The length of the longest response the trace is defined for, in tokens; none where it is not bounded.
    fn max_len(&self) -> Option<usize> {
        None
    }

    /// The matrix entry in words, as in `E[t,k] = 0.9^(t-k) for k <= t`.
    fn equation(&self) -> String {
        format!("E = {self:?}")
    }

    /// `z = E x`.
    fn apply(&self, x: &[f64]) -> Vec<f64> {
        let mut z = vec![0.0; x.len()];
        self.apply_into(x, &mut z);
        z
    }

    /// `g = E^T y`.
    fn adjoint(&self, y: &[f64]) -> Vec<f64> {
        let mut g = vec![0.0; y.len()];
        self.adjoint_into(y, &mut g);
        g
    }

    /// Column sums `c_k = sum_t E[t,k]`: the weight token `k` receives on-policy when every token has the same advantage.
    fn column_sums(&self, len: usize) -> Vec<f64> {
        self.adjoint(&vec![1.0; len])
    }

    /// Row sums `w_t = sum_k E[t,k]`: the weights of Algorithm 2 (the "epsilon-weight" update).
    fn row_sums(&self, len: usize) -> Vec<f64> {
        self.apply(&vec![1.0; len])
    }
}

impl<T: Trace + ?Sized> Trace for Box<T> {
    fn weight(&self, t: usize, k: usize, len: usize) -> f64 {
        (**self).weight(t, k, len)
    }
    fn apply_into(&self, x: &[f64], z: &mut [f64]) {
        (**self).apply_into(x, z);
    }
    fn adjoint_into(&self, y: &[f64], g: &mut [f64]) {
        (**self).adjoint_into(y, g);
    }
    fn max_len(&self) -> Option<usize> {
        (**self).max_len()
    }
    fn equation(&self) -> String {
        (**self).equation()
    }
    fn column_sums(&self, len: usize) -> Vec<f64> {
        (**self).column_sums(len)
    }
    fn row_sums(&self, len: usize) -> Vec<f64> {
        (**self).row_sums(len)
    }
}

/// The dense `T x T` matrix of a trace, row `t` first: O(T^2), for tests, figures and the benchmark's comparison only.
pub fn dense(trace: &dyn Trace, len: usize) -> Vec<Vec<f64>> {
    (0..len).map(|t| (0..len).map(|k| trace.weight(t, k, len)).collect()).collect()
}
