use super::{Seen, Tokens, Update};
use crate::assignment::Selection;
use crate::equation::{LOG_RATIO, Part, number};
use crate::group::Group;
use crate::methods::Coupling;
use crate::trace::{RowNormalised, Trace};

/// What a selective trace decays by.
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
/// With every token selected it is [`Recent`](crate::trace::Recent) under both clocks; with none,
/// [`Token`](crate::trace::Token).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sparse<'a> {
    /// `gamma lambda`, in `[0, 1]`.
    pub q: f64,
    /// `h`: which tokens later ones may read, length `T`.
    pub eligible: &'a [bool],
    /// What decays.
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

/// A [`Sparse`] trace in the ratio over the tokens a [`Selection`] picks in each batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selective {
    /// `gamma lambda`, in `[0, 1]`.
    pub q: f64,
    /// What decays.
    pub clock: Clock,
    /// Divide each row by its sum.
    pub normalised: bool,
    /// Which tokens are read.
    pub selection: Selection,
}

impl Selective {
    fn with<R>(&self, eligible: &[bool], run: impl FnOnce(&dyn Trace) -> R) -> R {
        let sparse = Sparse { q: self.q, eligible, clock: self.clock };
        if self.normalised { run(&RowNormalised(sparse)) } else { run(&sparse) }
    }
}

/// The selection of a response's credit.
fn eligible<'a>(tokens: &Tokens<'a>) -> &'a [bool] {
    tokens.eligible.expect("a selective trace reads the selection of its credit")
}

impl Update for Selective {
    fn forward(&self, tokens: &Tokens) -> Seen {
        let x = tokens.log_ratios();
        Seen { z: self.with(eligible(tokens), |trace| trace.apply(&x)), spare: x, ..Seen::default() }
    }

    fn backward(&self, tokens: &Tokens, seen: Seen, slopes: Vec<f64>, _: &[f64]) -> Vec<f64> {
        let mut gradient = seen.z;
        self.with(eligible(tokens), |trace| trace.adjoint_into(&slopes, &mut gradient));
        gradient
    }

    fn equation(&self, loss: &str) -> Vec<Part> {
        vec![
            ("policy", format!("l_t = {loss}")),
            ("ratio", format!("rho_t = exp(z_t), z_t = sum_k E[t,k] x_k, {LOG_RATIO}")),
            ("trace", self.with(&[], |trace| trace.equation())),
            ("chosen", format!("h_k = 1 where {}, else 0", self.selection.equation("k"))),
        ]
    }

    fn select(&self, batch: &[Group], active: &[bool]) -> Option<Vec<Vec<bool>>> {
        Some(self.selection.of_batch(batch, active))
    }

    fn reads_tokens(&self) -> bool {
        true
    }

    fn coupling(&self) -> Coupling {
        self.selection.coupling()
    }
}
