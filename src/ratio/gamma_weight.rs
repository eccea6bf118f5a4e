use super::{LOG_RATIO, LogProbs, PolicyRatio, SurrogateInput};
use crate::equation::{Part, number};

/// Shape `k` and rate `lambda` of a [`GammaWeight`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gamma {
    /// Exponent of the ratio, at least 0.
    pub k: f64,
    /// Rate at which the weight falls, positive.
    pub lambda: f64,
}

impl Gamma {
    /// `e^lambda w^k e^(-lambda w)` at `log w`.
    fn at(self, log_w: f64) -> f64 {
        (self.lambda + self.k * log_w - self.lambda * log_w.exp()).exp()
    }
}

/// The ratio of the whole response as a held weight in front of each token's loss, damped by a gamma density that is 1 at ratio 1:
///
/// ```text
/// w = prod_t rho_t,      f_t = sg( e^lambda w^k e^(-lambda w) ),      k, lambda by the sign of A_t
/// ```
/// Log-ratios are cut at 20 nats and `log w` at `log 1e-8` and 20, as in the public code. Source: VESPO; TRL `vespo`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GammaWeight {
    /// The weight where `A_t >= 0`.
    pub positive: Gamma,
    /// The weight where `A_t < 0`.
    pub negative: Gamma,
}

/// Largest log-ratio of a token and of a response.
const LIMIT: f64 = 20.0;
/// Smallest ratio of a response.
const SMALLEST: f64 = 1e-8;

impl PolicyRatio for GammaWeight {
    fn forward(&self, logps: &LogProbs) -> SurrogateInput {
        let z = logps.log_ratios();
        let total: f64 = logps.frozen_log_ratios().iter().map(|x| x.clamp(-LIMIT, LIMIT)).sum();
        let log_w = total.clamp(SMALLEST.ln(), LIMIT);
        let (up, down) = (self.positive.at(log_w), self.negative.at(log_w));
        let factors = logps.advantages.iter().map(|&a| if a >= 0.0 { up } else { down }).collect();
        SurrogateInput { buffer: z.clone(), z, factors: Some(factors), ..SurrogateInput::default() }
    }

    fn backward(&self, _: &LogProbs, _: SurrogateInput, slopes: Vec<f64>, _: &[f64]) -> Vec<f64> {
        slopes
    }

    fn equation(&self, loss: &str) -> Vec<Part> {
        let gamma = |g: Gamma| format!("exp({0}) w^{1} exp(-{0} w)", number(g.lambda), number(g.k));
        let factor = format!(
            "f_t = {} where delta_t >= 0, else {}; w = exp(sum_k x_k); the gradient takes f as constant",
            gamma(self.positive),
            gamma(self.negative)
        );
        vec![
            ("policy", format!("l_t = f_t * ({loss})")),
            ("ratio", format!("rho_t = exp(x_t), {LOG_RATIO}")),
            ("front", factor),
        ]
    }
}
