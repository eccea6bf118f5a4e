use super::Trace;
use crate::equation::number;

/// The clock of a selective trace's decay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// One factor `q` per token.
    Token,
    /// One factor `q` per selected token.
    Selected,
}

/// A decayed trace that reads selected tokens only, and always the current one.
///
/// ```text
/// E[t,k] = q^(n_t - n_k) h_k   for k < t,   E[t,t] = 1,        h_k in {0, 1}
/// n_t = t  (clock Token)       or  h_0 + .. + h_t  (clock Selected)
/// forward   s_t = d_t (s_{t-1} + h_{t-1} x_{t-1}),  z_t = s_t + x_t,     d_t = q where the clock ticks at t, else 1
/// ```
/// With every token selected it is [`Recent`](super::Recent) under both clocks; with none,
/// [`Token`](super::Token).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sparse<'a> {
    /// `gamma lambda`, in `[0, 1]`.
    pub q: f64,
    /// `h`: which tokens later ones may read, length `T`.
    pub eligible: &'a [bool],
    /// The clock of the trace's decay.
    pub clock: Clock,
}

impl Sparse<'_> {
    fn decay(&self, t: usize) -> f64 {
        if self.clock == Clock::Token || self.eligible[t] { self.q } else { 1.0 }
    }
}

impl Trace for Sparse<'_> {
    fn equation(&self) -> String {
        let q = number(self.q);
        let power = match self.clock {
            Clock::Token => format!("{q}^(t-k)"),
            Clock::Selected => format!("{q}^(h_(k+1) + .. + h_t)"),
        };
        format!("E[t,k] = 1 for k = t, {power} h_k for k < t")
    }

    fn weight(&self, t: usize, k: usize, len: usize) -> f64 {
        assert!(t < len && k < len);
        match k.cmp(&t) {
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Less if self.eligible[k] => (k + 1..=t).map(|i| self.decay(i)).product(),
            _ => 0.0,
        }
    }

    fn apply_into(&self, x: &[f64], z: &mut [f64]) {
        assert!(x.len() == z.len() && x.len() == self.eligible.len());
        let mut before = 0.0;
        for t in 0..x.len() {
            before *= self.decay(t);
            z[t] = before + x[t];
            if self.eligible[t] {
                before += x[t];
            }
        }
    }

    fn adjoint_into(&self, y: &[f64], g: &mut [f64]) {
        assert!(y.len() == g.len() && y.len() == self.eligible.len());
        let mut after = 0.0;
        for k in (0..y.len()).rev() {
            g[k] = if self.eligible[k] { y[k] + after } else { y[k] };
            after = self.decay(k) * (after + y[k]);
        }
    }
}
