use super::{Trace, scan};
use crate::equation::number;

/// The paper's style *both*: `E[t,k] = max(q^(t-k), q^k)` for `k <= t`, which keeps the earliest tokens as eligible as the latest.
///
/// ```text
/// E[t,k] = q^min(k, t-k)
/// forward   z_t = sum_{k<m} q^k x_k + sum_{k>=m} q^(t-k) x_k,           m = ceil(t/2)
/// adjoint   g_k = sum_{t=k..2k} q^(t-k) y_t + q^k sum_{t>2k} y_t
/// columns   c_k = (1 - q^(min(k,T-1-k)+1)) / (1 - q) + max(0, T-1-2k) q^k,   c_0 = T for every q
/// ```
/// Not a generalisation of GRPO: at `q = 0` token 0 still has weight `T` (erratum E5).
///
/// Source: GRPO-lambda Eq. 2; the linear-time form is ours.
///
/// ```
/// use grpo_lambda::trace::{Both, Trace};
/// assert_eq!(Both { q: 0.0 }.column_sums(6), [6.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Both {
    /// `gamma lambda`, in `[0, 1]`.
    pub q: f64,
}

impl Trace for Both {
    fn equation(&self) -> String {
        format!("E[t,k] = max({q}^(t-k), {q}^k) for k <= t", q = number(self.q))
    }

    fn weight(&self, t: usize, k: usize, len: usize) -> f64 {
        assert!(t < len && k < len);
        if k > t { 0.0 } else { self.q.powi(k.min(t - k) as i32) }
    }

    fn apply_into(&self, x: &[f64], z: &mut [f64]) {
        assert_eq!(x.len(), z.len());
        let mut recent = x.to_vec();
        scan::decayed_prefix(self.q, &mut recent);
        let mut head = 0.0; // sum_{k<m} q^k x_k
        let mut q_m = 1.0; // q^m
        let mut m = 0;
        for t in 0..x.len() {
            let next = t.div_ceil(2);
            if next > m {
                head += q_m * x[m];
                q_m *= self.q;
                m = next;
            }
            // The decayed prefix at t without the part that lies before m: q^(t-m+1) recent[m-1].
            // t-m+1 is m+1 for even t and m for odd t.
            let tail = if m == 0 {
                recent[t]
            } else {
                let shift = if t % 2 == 0 { q_m * self.q } else { q_m };
                recent[t] - shift * recent[m - 1]
            };
            z[t] = head + tail;
        }
    }

    fn adjoint_into(&self, y: &[f64], g: &mut [f64]) {
        assert_eq!(y.len(), g.len());
        let len = y.len();
        let mut decayed = y.to_vec();
        scan::decayed_suffix(self.q, &mut decayed);
        let mut plain = y.to_vec();
        scan::decayed_suffix(1.0, &mut plain);
        let mut q_k = 1.0;
        for k in 0..len {
            g[k] = decayed[k];
            if let (Some(d), Some(s)) = (decayed.get(2 * k + 1), plain.get(2 * k + 1)) {
                g[k] += q_k * (s - self.q * d);
            }
            q_k *= self.q;
        }
    }

    fn column_sums(&self, len: usize) -> Vec<f64> {
        let powers = scan::powers(self.q, len);
        (0..len)
            .map(|k| {
                let beyond = (len - 1).saturating_sub(2 * k) as f64;
                scan::geometric(self.q, k.min(len - 1 - k) + 1) + beyond * powers[k]
            })
            .collect()
    }

    fn row_sums(&self, len: usize) -> Vec<f64> {
        (0..len)
            .map(|t| scan::geometric(self.q, t.div_ceil(2)) + scan::geometric(self.q, t / 2 + 1))
            .collect()
    }
}
