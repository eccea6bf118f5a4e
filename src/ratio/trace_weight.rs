use super::{LOG_RATIO, LogProbs, PolicyRatio, SurrogateInput};
use crate::equation::Part;
use crate::soft_clamp::SoftClamp;
use crate::trace::Trace;

/// The trace in front of the loss: the loss of the plain token ratio times the soft-clamped trace weight of the token
/// (GRPO-lambda's epsilon-weight, Algorithm 2).
#[derive(Debug)]
pub struct TraceWeight(
    /// The trace `E`.
    pub Box<dyn Trace>,
    /// The function of `log pi` that the trace is applied to.
    pub SoftClamp,
);

impl PolicyRatio for TraceWeight {
    fn forward(&self, logps: &LogProbs) -> SurrogateInput {
        let at = if self.1.gradient { logps.logps } else { logps.frozen };
        let soft = self.1.weights(self.0.as_ref(), at);
        let z = logps.log_ratios();
        SurrogateInput {
            buffer: z.clone(),
            z,
            factors: Some(soft.weights),
            saved: soft.slopes,
            ..SurrogateInput::default()
        }
    }

    fn backward(
        &self,
        _: &LogProbs,
        input: SurrogateInput,
        mut slopes: Vec<f64>,
        values: &[f64],
    ) -> Vec<f64> {
        self.1.add_gradient(self.0.as_ref(), &input.saved, values, &mut slopes);
        slopes
    }

    fn equation(&self, loss: &str) -> Vec<Part> {
        vec![
            ("policy", format!("l_t = u_t * {loss}")),
            ("ratio", format!("rho_t = exp(x_t), {LOG_RATIO}")),
            ("front", self.1.equation()),
            ("trace", self.0.equation()),
        ]
    }

    fn max_len(&self) -> Option<usize> {
        self.0.max_len()
    }
}
