use crate::assignment::selection::quantile;
use crate::equation::{Part, number};

/// The threshold of a response's normalised scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// Their own quantile: the authors' code.
    Quantile,
    /// The number itself: their README.
    Raw,
}

/// From scores to weights: suppression below a threshold, a boost above it.
///
/// ```text
/// s = log1p(max(I, 0)),   n = (s - min s) / (max s - min s),   tau = quantile(n, threshold)
/// w = max(n / (tau + 1e-8), floor)                   n <  tau
/// w = 1 + boost (n - tau) / (1 - tau + 1e-8)         n >= tau
/// w = w R / sum w                                    if the mass is preserved
/// ```
/// `w` is positive while `floor` is, so the sign of the advantage stays; equal scores give 1 exactly (but for the raw threshold
/// without mass, which gives them the floor). Since `w` depends on the whole
/// response, the reshaped update is in general no gradient.
///
/// Where the authors' code and README differ (logarithm, quantile, mass) both are settings, the code's the default. Ours: a
/// negative score, which the code turns into NaN below -1, counts as 0; the sum of `w` is divided by without the code's 1e-8.
///
/// ```
/// use grpo_lambda::assignment::{BiLevel, Threshold};
/// let readme = BiLevel { threshold: 0.5, on: Threshold::Raw, boost: 1.0, floor: 0.1, log1p: false, mass: false };
/// let w = readme.weights(&[0.0, 1.0, 3.0, 4.0]); // n = 0, 1/4, 3/4, 1
/// for (w, want) in w.iter().zip([0.1, 0.5, 1.5, 2.0]) {
///     assert!((w - want).abs() < 1e-7);
/// }
/// ```
///
/// Source: OAR, arXiv 2601.07408, the authors' `OAR-main.py` and README.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BiLevel {
    /// Level of the quantile, or the threshold itself, in `[0, 1]`.
    pub threshold: f64,
    /// True if `threshold` is that level or the threshold itself.
    pub on: Threshold,
    /// `beta`: how far weights rise above 1, at least 0.
    pub boost: f64,
    /// Smallest weight before the mass is restored, in `[0, 1]`.
    pub floor: f64,
    /// True if scores are compressed by a logarithm first.
    pub log1p: bool,
    /// True if the weights are scaled to sum to their number `R`.
    pub mass: bool,
}

/// Keeps the two quotients of the authors' code finite.
const EPSILON: f64 = 1e-8;

impl BiLevel {
    /// The weight of each scored token.
    pub fn weights(&self, scores: &[f64]) -> Vec<f64> {
        let compress = |i: &f64| if self.log1p { i.max(0.0).ln_1p() } else { i.max(0.0) };
        let mut n: Vec<f64> = scores.iter().map(compress).collect();
        let low = n.iter().copied().fold(f64::INFINITY, f64::min);
        let high = n.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let spread = if high > low { high - low } else { 1.0 };
        n.iter_mut().for_each(|s| *s = (*s - low) / spread);
        let tau = match self.on {
            Threshold::Quantile => quantile(self.threshold, &mut n.clone()),
            Threshold::Raw => self.threshold,
        };
        let weight = |&n: &f64| {
            if n < tau {
                (n / (tau + EPSILON)).max(self.floor)
            } else {
                1.0 + self.boost * (n - tau) / (1.0 - tau + EPSILON)
            }
        };
        let mut weights: Vec<f64> = n.iter().map(weight).collect();
        if self.mass {
            let sum: f64 = weights.iter().sum();
            // 0 only for equal scores below a raw threshold with floor 0: no token stands out, none is silenced.
            let scale = weights.len() as f64 / sum;
            weights.iter_mut().for_each(|w| *w = if sum > 0.0 { *w * scale } else { 1.0 });
        }
        weights
    }

    /// `c_t = ..` of the reasoning tokens, for scores `I_t`.
    pub fn equation(&self) -> Vec<Part> {
        let (floor, boost) = (number(self.floor), number(self.boost));
        let level = format!(
            "y_t = max(n_t / (tau + {e}), {floor}) where n_t < tau, else 1 + {boost} (n_t - tau) / (1 - tau + {e})",
            e = number(EPSILON)
        );
        let weight = match self.mass {
            true => "c_t = R y_t / sum_k y_k over the R reasoning tokens, 1 where the sum is 0",
            false => "c_t = y_t",
        };
        let threshold = number(self.threshold);
        let tau = match self.on {
            Threshold::Quantile => format!("tau = the {threshold} quantile of n over the reasoning tokens"),
            Threshold::Raw => format!("tau = {threshold}"),
        };
        let score = if self.log1p { "log(1 + max(I_t, 0))" } else { "max(I_t, 0)" };
        let scaled = format!("n_t = (S_t - min S) / (max S - min S), 0 where all S agree, S_t = {score}");
        vec![("bi-level", format!("{weight}; {level}")), ("threshold", tau), ("scores", scaled)]
    }
}
