//! The readings that the paper leaves open, with their weights as closed forms.

use crate::experiments::common::vectors::mean;

/// `γλ` of every reading.
pub(super) const Q: f64 = 0.99;

/// One reading of the method.
#[derive(Clone)]
pub(super) struct Reading {
    both: bool,
    pub(super) matrix: &'static str,
    pub(super) normalise: &'static str,
    terminal: bool,
    /// `None` for the trace update; else the reading of the soft clamp, and true if the gradient flows through it.
    pub(super) weight: Option<(&'static str, bool)>,
}

impl Reading {
    pub(super) fn every() -> Vec<Reading> {
        let mut all = Vec::new();
        let soft =
            ["matrix", "elementwise", "inner"].into_iter().flat_map(|r| [Some((r, true)), Some((r, false))]);
        for weight in std::iter::once(None).chain(soft) {
            for both in [false, true] {
                for matrix in ["equation", "row_index", "as_printed"] {
                    for normalise in ["none", "rows", "mean"] {
                        for terminal in [false, true] {
                            all.push(Reading { both, matrix, normalise, terminal, weight });
                        }
                    }
                }
            }
        }
        all
    }

    pub(super) fn style(&self) -> &'static str {
        if self.both { "both" } else { "recent" }
    }

    pub(super) fn delta(&self) -> &'static str {
        if self.terminal { "terminal" } else { "constant" }
    }

    pub(super) fn settings(&self) -> String {
        let update = match self.weight {
            None => "update=trace".to_owned(),
            Some((reading, gradient)) => {
                format!("update=weight soft_clamp={reading} soft_gradient={gradient}")
            }
        };
        format!(
            "lambda={Q} style={} matrix={} normalise={} delta={} {update}",
            self.style(),
            self.matrix,
            self.normalise,
            self.delta()
        )
    }

    /// The weights from formulas alone, with the matrix written out: nothing of the crate's traces is used.
    pub(super) fn closed_form(&self, logps: &[f64]) -> Vec<f64> {
        let len = logps.len();
        let m = self.trace_matrix(len);
        let delta: Vec<f64> = (0..len).map(|t| f64::from(!self.terminal || t + 1 == len)).collect();
        let column = |k: usize, y: &[f64]| (0..len).map(|t| m[t][k] * y[t]).sum::<f64>();
        let weight = |k: usize| match self.weight {
            None => column(k, &delta),
            Some((reading, gradient)) => {
                // v = 1 + σ(log π - 1) and v' = σ (1 - σ)
                let sigma = |t: usize| 1.0 / (1.0 + (1.0 - logps[t]).exp());
                let (v, slope) = (|t| 1.0 + sigma(t), |t| sigma(t) * (1.0 - sigma(t)));
                let row_sum = |t: usize| m[t].iter().sum::<f64>();
                let (front, through) = match reading {
                    "matrix" => ((0..len).map(|j| m[k][j] * v(j)).sum(), column(k, &delta)),
                    "elementwise" => (row_sum(k) * v(k), row_sum(k) * delta[k]),
                    _ => ((0..len).map(|t| row_sum(t) * v(t)).sum(), row_sum(k) * delta.iter().sum::<f64>()),
                };
                delta[k] * front + f64::from(gradient) * slope(k) * through
            }
        };
        let weights: Vec<f64> = (0..len).map(weight).collect();
        let mass = if self.normalise == "mean" { mean(&weights) } else { 1.0 };
        weights.iter().map(|w| w / mass).collect()
    }

    /// The matrix of the trace, its rows normalised if the reading says so.
    fn trace_matrix(&self, len: usize) -> Vec<Vec<f64>> {
        let power = |n: usize| Q.powi(n as i32);
        let entry = |t: usize, k: usize| match (self.matrix, self.both) {
            _ if k > t => 0.0,
            _ if k == t => 1.0,
            ("as_printed", false) => power(len - 1 - k),
            ("as_printed", true) => power(len - 1 - k).max(power(k)),
            (_, false) => power(t - k),
            (_, true) => power(t - k).max(power(k)),
        };
        let mut m: Vec<Vec<f64>> = (0..len).map(|t| (0..len).map(|k| entry(t, k)).collect()).collect();
        if self.normalise == "rows" {
            for row in &mut m {
                let sum: f64 = row.iter().sum();
                row.iter_mut().for_each(|x| *x /= sum);
            }
        }
        m
    }
}
