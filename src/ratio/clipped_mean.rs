use super::{LOG_RATIO, LogProbs, PolicyRatio, SurrogateInput};
use crate::equation::{Part, number};

/// The geometric mean of a response's token ratios, each clipped on the side to which its advantage pushes it:
///
/// ```text
/// z_t = (1/T) sum_k y_k,      y_k = min(x_k, high) where A_k > 0,   max(x_k, -low) where A_k < 0,   0 where A_k = 0
/// ```
/// The bounds are on log-ratios. Source: GMPO, arXiv 2507.20673; verl `geo_mean`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClippedMean {
    /// Largest fall of a log-probability, at least 0.
    pub low: f64,
    /// Largest rise of a log-probability, at least 0.
    pub high: f64,
}

impl ClippedMean {
    /// `y_k`, and whether `x` enters it.
    fn clipped(&self, x: f64, a: f64) -> (f64, bool) {
        if a > 0.0 {
            (x.min(self.high), x <= self.high)
        } else if a < 0.0 {
            (x.max(-self.low), x >= -self.low)
        } else {
            (0.0, false)
        }
    }
}

impl PolicyRatio for ClippedMean {
    fn forward(&self, logps: &LogProbs) -> SurrogateInput {
        let mut x = logps.log_ratios();
        let (mut below, mut above) = (0, 0);
        for (x, &a) in x.iter_mut().zip(logps.advantages) {
            let (y, enters) = self.clipped(*x, a);
            above += usize::from(!enters && a > 0.0);
            below += usize::from(!enters && a < 0.0);
            *x = y;
        }
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        SurrogateInput {
            z: vec![mean; x.len()],
            clipped: (below, above),
            buffer: x,
            ..SurrogateInput::default()
        }
    }

    fn backward(&self, logps: &LogProbs, _: SurrogateInput, mut slopes: Vec<f64>, _: &[f64]) -> Vec<f64> {
        let share = slopes.iter().sum::<f64>() / slopes.len() as f64;
        let log_ratios = logps.logps.iter().zip(logps.old).map(|(new, old)| new - old);
        for ((slope, x), &a) in slopes.iter_mut().zip(log_ratios).zip(logps.advantages) {
            *slope = if self.clipped(x, a).1 { share } else { 0.0 };
        }
        slopes
    }

    fn equation(&self, loss: &str) -> Vec<Part> {
        let ratio = format!(
            "rho_t = exp((1/T_i) sum_k y_k), y_k = min(x_k, {}) where delta_k > 0, max(x_k, {}) where delta_k < 0, else 0; {LOG_RATIO}",
            number(self.high),
            number(-self.low)
        );
        vec![("policy", format!("l_t = {loss}")), ("ratio", ratio)]
    }
}
