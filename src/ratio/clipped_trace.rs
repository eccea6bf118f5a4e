use super::{LOG_RATIO, LogProbs, PolicyRatio, SurrogateInput};
use crate::equation::{Part, number};
use crate::trace::Trace;

/// A trace over token ratios that were clipped before they are accumulated: `z = E log clip(e^x, 1-low, 1+high)`.
///
/// Every row that sums to 1 then keeps `e^z` inside the trust region whatever the policy did; a token outside its own clip
/// interval gets no gradient through any row.
#[derive(Debug)]
pub struct ClippedTrace {
    /// The trace `E`.
    pub trace: Box<dyn Trace>,
    /// `epsilon_low`, in `[0, 1]`. At 1 the lower bound is minus infinity: no bound.
    pub low: f64,
    /// `epsilon_high`, at least 0.
    pub high: f64,
}

impl ClippedTrace {
    fn bounds(&self) -> (f64, f64) {
        ((1.0 - self.low).ln(), (1.0 + self.high).ln())
    }
}

impl PolicyRatio for ClippedTrace {
    fn forward(&self, logps: &LogProbs) -> SurrogateInput {
        let (low, high) = self.bounds();
        let mut x = logps.log_ratios();
        let below = x.iter().filter(|&&x| x < low).count();
        let above = x.iter().filter(|&&x| x > high).count();
        x.iter_mut().for_each(|x| *x = x.clamp(low, high));
        SurrogateInput {
            z: self.trace.apply(&x),
            clipped: (below, above),
            buffer: x,
            ..SurrogateInput::default()
        }
    }

    fn backward(&self, logps: &LogProbs, input: SurrogateInput, slopes: Vec<f64>, _: &[f64]) -> Vec<f64> {
        let (low, high) = self.bounds();
        let mut gradient = input.z;
        self.trace.adjoint_into(&slopes, &mut gradient);
        for ((g, new), old) in gradient.iter_mut().zip(logps.logps).zip(logps.old) {
            if !(low..=high).contains(&(new - old)) {
                *g = 0.0;
            }
        }
        gradient
    }

    fn equation(&self, loss: &str) -> Vec<Part> {
        let clip = format!("clip(exp(x_k), {}, {})", number(1.0 - self.low), number(1.0 + self.high));
        vec![
            ("policy", format!("l_t = {loss}")),
            ("ratio", format!("rho_t = exp(z_t), z_t = sum_k E[t,k] log {clip}, {LOG_RATIO}")),
            ("trace", self.trace.equation()),
        ]
    }

    fn max_len(&self) -> Option<usize> {
        self.trace.max_len()
    }
}
