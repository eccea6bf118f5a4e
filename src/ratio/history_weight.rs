use super::{LOG_RATIO, LogProbs, PolicyRatio, SurrogateInput};
use crate::equation::{Part, number};
use crate::surrogate::exp_tangent;

/// The decayed ratio of the history in front of the loss of the token's own ratio.
///
/// ```text
/// h_t = sum_{k<t} q^(t-k) x_k = q (h_{t-1} + x_{t-1}),    h_0 = 0
/// L   = sum_t w_t e^(h_t) l(x_t, A_t)
/// ```
/// Only the current token keeps PPO's trust region. On-policy `h = 0`; with the factor frozen the gradient is then GRPO's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistoryWeight {
    /// `gamma lambda`, in `[0, 1]`.
    pub q: f64,
    /// True if the gradient flows through `h`.
    pub gradient: bool,
}

impl PolicyRatio for HistoryWeight {
    fn forward(&self, logps: &LogProbs) -> SurrogateInput {
        let z = logps.log_ratios();
        let mut log_factors = if self.gradient { z.clone() } else { logps.frozen_log_ratios() };
        let mut next = 0.0;
        for x in &mut log_factors {
            let here = next;
            next = self.q * (here + *x);
            *x = here;
        }
        let factors = log_factors.iter().map(|&h| exp_tangent(h).value).collect();
        SurrogateInput {
            buffer: z.clone(),
            z,
            factors: Some(factors),
            log_factors: Some(log_factors),
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
        let (true, Some(history)) = (self.gradient, input.log_factors) else { return slopes };
        let mut later = 0.0; // sum_{t>k} q^(t-k) values_t d e^(h_t) / d h_t
        for k in (0..slopes.len()).rev() {
            slopes[k] += later;
            later = self.q * (later + values[k] * exp_tangent(history[k]).slope);
        }
        slopes
    }

    fn equation(&self, loss: &str) -> Vec<Part> {
        let gradient = if self.gradient { "flows through f" } else { "takes f as constant" };
        let factor = format!("f_t = exp(sum_{{k<t}} {}^(t-k) x_k); the gradient {gradient}", number(self.q));
        vec![
            ("policy", format!("l_t = f_t * {loss}")),
            ("ratio", format!("rho_t = exp(x_t), {LOG_RATIO}")),
            ("front", factor),
        ]
    }
}
