//! The trace matrices of the paper's appendix (Eq. 17 and 18), in the two ways they can be read.

use super::{Trace, scan};
use crate::equation::number;

/// The paper's trace styles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Weight decays with the distance to the current token (Eq. 1, 18).
    Recent,
    /// The larger of the decay from the current token and the decay from the first token (Eq. 2, 17).
    Both,
}

/// Eq. 17/18 read with `n` (or `max(cols)`) as the **row index**: Eq. 1/2 with a floor off the diagonal.
///
/// ```text
/// recent   E[t,k] = max(floor, q^(t-k))               k <= t
/// both     E[t,k] = max(floor, q^(t-k), q^k)
/// ```
/// With `floor = 0` this is exactly [`Recent`](super::Recent) or [`Both`](super::Both). The paper writes a floor
/// `epsilon` but never gives it a value (erratum E2): 0 is the default, and 0.01 would already flatten 49 % of the
/// causal entries at `T = 768, q = 0.98`.
///
/// Source: GRPO-lambda Eq. 17/18; this variant is ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowIndex {
    /// `gamma lambda`, in `[0, 1]`.
    pub q: f64,
    /// The paper's `epsilon`: the smallest weight of a causal entry off the diagonal, in `[0, 1]`.
    pub floor: f64,
    /// The paper's style.
    pub style: Style,
}

impl RowIndex {
    /// `max(floor, q^j)`.
    fn floored(&self, power: f64) -> f64 {
        power.max(self.floor)
    }

    /// The first lag whose weight is the floor, at most `len`.
    fn first_floored_lag(&self, powers: &[f64]) -> usize {
        powers.partition_point(|&p| p >= self.floor)
    }
}

impl Trace for RowIndex {
    fn equation(&self) -> String {
        let (q, floor) = (number(self.q), number(self.floor));
        match self.style {
            Style::Recent => format!("E[t,k] = max({floor}, {q}^(t-k)) for k <= t"),
            Style::Both => format!("E[t,k] = max({floor}, {q}^(t-k), {q}^k) for k <= t"),
        }
    }

    fn weight(&self, t: usize, k: usize, len: usize) -> f64 {
        assert!(t < len && k < len);
        let lag = |t: usize, k: usize| match self.style {
            Style::Recent => t - k,
            Style::Both => k.min(t - k),
        };
        if k > t { 0.0 } else { self.floored(self.q.powi(lag(t, k) as i32)) }
    }

    fn apply_into(&self, x: &[f64], z: &mut [f64]) {
        assert_eq!(x.len(), z.len());
        let len = x.len();
        let powers = scan::powers(self.q, len + 1);
        let first = self.first_floored_lag(&powers);
        let mut decayed = x.to_vec();
        scan::decayed_prefix(self.q, &mut decayed);
        let mut plain = x.to_vec();
        scan::decayed_prefix(1.0, &mut plain);
        let plain_before = |k: usize| if k == 0 { 0.0 } else { plain[k - 1] };
        // sum over lags 0..count of max(floor, q^lag) x_{t-lag}
        let lags = |t: usize, count: usize| {
            let live = count.min(first);
            let cut = if live > t { 0.0 } else { powers[live] * decayed[t - live] };
            decayed[t] - cut + self.floor * (plain_before(t + 1 - live) - plain_before(t + 1 - count))
        };
        let mut head = 0.0;
        let mut m = 0;
        for t in 0..len {
            z[t] = match self.style {
                Style::Recent => lags(t, t + 1),
                Style::Both => {
                    if t.div_ceil(2) > m {
                        head += self.floored(powers[m]) * x[m];
                        m += 1;
                    }
                    head + lags(t, t / 2 + 1)
                }
            };
        }
    }

    fn adjoint_into(&self, y: &[f64], g: &mut [f64]) {
        assert_eq!(y.len(), g.len());
        let len = y.len();
        let powers = scan::powers(self.q, len + 1);
        let first = self.first_floored_lag(&powers);
        let mut decayed = y.to_vec();
        scan::decayed_suffix(self.q, &mut decayed);
        let mut plain = y.to_vec();
        scan::decayed_suffix(1.0, &mut plain);
        let at = |v: &[f64], i: usize| v.get(i).copied().unwrap_or(0.0);
        // sum over lags 0..count of max(floor, q^lag) y_{k+lag}
        let lags = |k: usize, count: usize| {
            let live = count.min(first);
            decayed[k] - powers[live.min(len)] * at(&decayed, k + live)
                + self.floor * (at(&plain, k + live) - at(&plain, k + count))
        };
        for k in 0..len {
            g[k] = match self.style {
                Style::Recent => lags(k, len - k),
                Style::Both => lags(k, k + 1) + self.floored(powers[k]) * at(&plain, 2 * k + 1),
            };
        }
    }
}

/// Eq. 17/18 **literally**: 1 on the diagonal, and off it a weight that depends on the column only.
///
/// ```text
/// recent   E[t,k] = max(floor, q^(n-k))               k < t,  n = max_length - 1
/// both     E[t,k] = max(floor, q^(n-k), q^k)
/// columns  c_k = 1 + (T-1-k) E[.,k]                   a hump that peaks inside the response
/// ```
/// Rows agree with Eq. 1 only for the first and the last token (erratum E1). `n`, undefined in the paper, is the last
/// column of the matrix: of the response when `max_length` is `None`, else of a matrix built once for `max_length` tokens.
///
/// Source: GRPO-lambda Eq. 17/18.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AsPrinted {
    /// `gamma lambda`, in `[0, 1]`.
    pub q: f64,
    /// The paper's `epsilon`: the smallest weight of a causal entry off the diagonal, in `[0, 1]`.
    pub floor: f64,
    /// The paper's style.
    pub style: Style,
    /// Side of the precomputed matrix; `None` for the response's own length. At least `T`.
    pub max_length: Option<usize>,
}

impl AsPrinted {
    fn off_diagonal(&self, k: usize, len: usize) -> f64 {
        let n = self.max_length.unwrap_or(len) - 1;
        assert!(n + 1 >= len, "a response of {len} tokens in a trace matrix of {}", n + 1);
        let decay = self.q.powi((n - k) as i32).max(self.floor);
        match self.style {
            Style::Recent => decay,
            Style::Both => decay.max(self.q.powi(k as i32)),
        }
    }
}

impl Trace for AsPrinted {
    fn equation(&self) -> String {
        let (q, floor) = (number(self.q), number(self.floor));
        let off = match self.style {
            Style::Recent => format!("max({floor}, {q}^(n-k))"),
            Style::Both => format!("max({floor}, {q}^(n-k), {q}^k)"),
        };
        let last = self.max_length.map_or("T_i - 1".to_owned(), |n| (n - 1).to_string());
        format!("E[t,k] = 1 for k = t, {off} for k < t, n = {last}")
    }

    fn weight(&self, t: usize, k: usize, len: usize) -> f64 {
        assert!(t < len && k < len);
        match k.cmp(&t) {
            std::cmp::Ordering::Less => self.off_diagonal(k, len),
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Greater => 0.0,
        }
    }

    fn max_len(&self) -> Option<usize> {
        self.max_length
    }

    fn apply_into(&self, x: &[f64], z: &mut [f64]) {
        assert_eq!(x.len(), z.len());
        let mut before = 0.0;
        for t in 0..x.len() {
            z[t] = x[t] + before;
            before += self.off_diagonal(t, x.len()) * x[t];
        }
    }

    fn adjoint_into(&self, y: &[f64], g: &mut [f64]) {
        assert_eq!(y.len(), g.len());
        let mut after = 0.0;
        for k in (0..y.len()).rev() {
            g[k] = y[k] + self.off_diagonal(k, y.len()) * after;
            after += y[k];
        }
    }
}
