use super::{LOG_RATIO, LogProbs, PolicyRatio, SurrogateInput};
use crate::equation::{Part, number};

/// The ratio of the whole response, clipped and held, in front of each token's loss.
///
/// ```text
/// f_t = sg( clip(prod_k rho_k, low, high) ),      low, high by the sign of A_t
/// ```
/// Log-ratios of responses are cut at 20 nats. Source: TOPR, arXiv 2503.14286 (Eq. 8); verl `bypass_mode` with `rollout_is=sequence`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldWeight {
    /// Smallest and largest weight where `A_t > 0`.
    pub positive: (f64, f64),
    /// Smallest and largest weight elsewhere.
    pub negative: (f64, f64),
}

/// Largest log-ratio of a response.
const LIMIT: f64 = 20.0;

impl PolicyRatio for HeldWeight {
    fn forward(&self, logps: &LogProbs) -> SurrogateInput {
        let z = logps.log_ratios();
        let product = logps.frozen_log_ratios().iter().sum::<f64>().clamp(-LIMIT, LIMIT).exp();
        let weight = |a: &f64| {
            let (low, high) = if *a > 0.0 { self.positive } else { self.negative };
            product.clamp(low, high)
        };
        let factors = logps.advantages.iter().map(weight).collect();
        SurrogateInput { buffer: z.clone(), z, factors: Some(factors), ..SurrogateInput::default() }
    }

    fn backward(&self, _: &LogProbs, _: SurrogateInput, slopes: Vec<f64>, _: &[f64]) -> Vec<f64> {
        slopes
    }

    fn equation(&self, loss: &str) -> Vec<Part> {
        let clip = |(low, high): (f64, f64)| match low == high {
            true => number(low),
            false => format!("clip(prod_k rho_k, {}, {})", number(low), number(high)),
        };
        let factor = match self.positive == self.negative {
            true => format!("f_t = {}", clip(self.positive)),
            false => {
                format!("f_t = {} where delta_t > 0, else {}", clip(self.positive), clip(self.negative))
            }
        };
        vec![
            ("policy", format!("l_t = f_t * ({loss})")),
            ("ratio", format!("rho_t = exp(x_t), {LOG_RATIO}")),
            ("front", format!("{factor}; the gradient takes f as constant")),
        ]
    }
}
