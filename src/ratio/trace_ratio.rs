use super::{LOG_RATIO, LogProbs, PolicyRatio, SurrogateInput};
use crate::equation::Part;
use crate::trace::Trace;

/// The trace in the ratio: `z = E x`. GRPO-lambda's epsilon-trace (Algorithm 1); with [`Token`](crate::trace::Token), GRPO;
/// with [`Sequence`](crate::trace::Sequence), GSPO.
#[derive(Debug)]
pub struct TraceRatio(
    /// The trace `E`.
    pub Box<dyn Trace>,
);

impl PolicyRatio for TraceRatio {
    fn forward(&self, logps: &LogProbs) -> SurrogateInput {
        let x = logps.log_ratios();
        SurrogateInput { z: self.0.apply(&x), buffer: x, ..SurrogateInput::default() }
    }

    fn backward(&self, _: &LogProbs, input: SurrogateInput, slopes: Vec<f64>, _: &[f64]) -> Vec<f64> {
        let mut gradient = input.z; // no longer needed
        self.0.adjoint_into(&slopes, &mut gradient);
        gradient
    }

    fn equation(&self, loss: &str) -> Vec<Part> {
        vec![
            ("policy", format!("l_t = {loss}")),
            ("ratio", format!("rho_t = exp(z_t), z_t = sum_k E[t,k] x_k, {LOG_RATIO}")),
            ("trace", self.0.equation()),
        ]
    }

    fn max_len(&self) -> Option<usize> {
        self.0.max_len()
    }
}
