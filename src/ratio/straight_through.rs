use super::{LOG_RATIO, LogProbs, PolicyRatio, SurrogateInput};
use crate::equation::Part;
use crate::trace::Trace;

/// The value of a trace ratio with the gradient of the token's own: `z_t = (E sg x)_t + x_t - sg x_t`.
///
/// With [`Sequence`](crate::trace::Sequence) it is GSPO-token, `s_t = sg[s] pi / sg[pi]`: the loss of GSPO, whose gradient
/// reaches each token through that token's advantage alone. While every token of a response has the same advantage and weight the
/// two gradients are equal.
#[derive(Debug)]
pub struct StraightThrough(
    /// The trace `E` of the value.
    pub Box<dyn Trace>,
);

impl PolicyRatio for StraightThrough {
    fn forward(&self, logps: &LogProbs) -> SurrogateInput {
        let x = logps.frozen_log_ratios();
        let mut z = self.0.apply(&x);
        for ((z, new), frozen) in z.iter_mut().zip(logps.logps).zip(logps.frozen) {
            *z += new - frozen;
        }
        SurrogateInput { z, buffer: x, ..SurrogateInput::default() }
    }

    fn backward(&self, _: &LogProbs, _: SurrogateInput, slopes: Vec<f64>, _: &[f64]) -> Vec<f64> {
        slopes
    }

    fn equation(&self, loss: &str) -> Vec<Part> {
        let ratio = "rho_t = exp(sg(z_t) + x_t - sg(x_t)), z_t = sum_k E[t,k] x_k";
        vec![
            ("policy", format!("l_t = {loss}")),
            ("ratio", format!("{ratio}, {LOG_RATIO}; the gradient takes sg(..) as constant")),
            ("trace", self.0.equation()),
        ]
    }

    fn max_len(&self) -> Option<usize> {
        self.0.max_len()
    }
}
