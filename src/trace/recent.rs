use super::{Trace, scan};
use crate::equation::number;

/// The classic accumulating trace, the paper's style *recent*: `E[t,k] = q^(t-k)` for `k <= t`, with `q = gamma lambda`.
///
/// ```text
/// forward   z_t = q z_{t-1} + x_t          (Eq. 15; exp(z_t) is the ratio of Eq. 1)
/// adjoint   g_k = y_k + q g_{k+1}          (GAE's recursion)
/// columns   c_k = (1 - q^(T-k)) / (1 - q)  falls with k: c_{T-1} = 1, c_0 up to 1/(1-q)
/// rows      w_t = (1 - q^(t+1)) / (1 - q)  the columns reversed in time
/// ```
/// `q = 0` is [`Token`](super::Token); `q = 1` the cumulative ratio of the whole prefix.
///
/// Source: GRPO-lambda Eq. 1 and 13-15.
///
/// ```
/// use grpo_lambda::trace::{Recent, Trace};
/// let c = Recent { q: 0.99 }.column_sums(256);
/// assert!((c[0] - 92.4).abs() < 0.05 && c[255] == 1.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recent {
    /// `gamma lambda`, in `[0, 1]`.
    pub q: f64,
}

impl Trace for Recent {
    fn equation(&self) -> String {
        format!("E[t,k] = {}^(t-k) for k <= t", number(self.q))
    }
    fn weight(&self, t: usize, k: usize, len: usize) -> f64 {
        assert!(t < len && k < len);
        if k > t { 0.0 } else { self.q.powi((t - k) as i32) }
    }
    fn apply_into(&self, x: &[f64], z: &mut [f64]) {
        z.copy_from_slice(x);
        scan::decayed_prefix(self.q, z);
    }
    fn adjoint_into(&self, y: &[f64], g: &mut [f64]) {
        g.copy_from_slice(y);
        scan::decayed_suffix(self.q, g);
    }
    fn column_sums(&self, len: usize) -> Vec<f64> {
        (0..len).map(|k| scan::geometric(self.q, len - k)).collect()
    }
    fn row_sums(&self, len: usize) -> Vec<f64> {
        (0..len).map(|t| scan::geometric(self.q, t + 1)).collect()
    }
}
