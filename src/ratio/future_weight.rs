use super::{LOG_RATIO, LogProbs, PolicyRatio, SurrogateInput};
use crate::equation::{Part, number};
use crate::trace::scan;

/// The decayed product of the ratios from each token on, clipped and held, in front of the loss of the token's own ratio (FIPO).
///
/// ```text
/// f_t = sg( clip( exp(sum_{k>=t, rho_k <= cap} q^(k-t) x_k), low, high ) )
/// f_t = clip(f_t, 0.8, 1) where A_t < 0 and rho_t > safety
/// ```
/// It is the trace of GRPO-lambda turned round: there a token reads the ratios before it, here those after it. On-policy `f = 1`.
///
/// Source: FIPO, arXiv 2603.19835; ms-swift `loss_type=fipo`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FutureWeight {
    /// Decay per token, in `[0, 1]`.
    pub q: f64,
    /// Smallest and largest weight.
    pub bounds: (f64, f64),
    /// The ratio above which a token of negative advantage is not weighed up.
    pub safety: f64,
    /// The ratio above which a token has no part in the weights; infinite for none.
    pub cap: f64,
}

/// Bounds of the weight of a token of negative advantage whose ratio exceeds the safety.
const SAFE: (f64, f64) = (0.8, 1.0);

impl PolicyRatio for FutureWeight {
    fn forward(&self, logps: &LogProbs) -> SurrogateInput {
        let z = logps.log_ratios();
        let mut future = logps.frozen_log_ratios();
        let own = future.clone();
        future.iter_mut().filter(|x| x.exp() > self.cap).for_each(|x| *x = 0.0);
        scan::decayed_suffix(self.q, &mut future);
        let weight = |((sum, x), a): ((&f64, &f64), &f64)| {
            let weight = sum.exp().clamp(self.bounds.0, self.bounds.1);
            if *a < 0.0 && x.exp() > self.safety { weight.clamp(SAFE.0, SAFE.1) } else { weight }
        };
        let factors = future.iter().zip(&own).zip(logps.advantages).map(weight).collect();
        SurrogateInput { buffer: z.clone(), z, factors: Some(factors), ..SurrogateInput::default() }
    }

    fn backward(&self, _: &LogProbs, _: SurrogateInput, slopes: Vec<f64>, _: &[f64]) -> Vec<f64> {
        slopes
    }

    fn equation(&self, loss: &str) -> Vec<Part> {
        let capped =
            if self.cap.is_finite() { format!(", rho_k <= {}", number(self.cap)) } else { String::new() };
        let factor = format!(
            "f_t = clip(exp(sum_{{k>=t{capped}}} {}^(k-t) x_k), {}, {}), clipped to [{}, {}] where delta_t < 0 and rho_t > {}; the gradient takes f as constant",
            number(self.q),
            number(self.bounds.0),
            number(self.bounds.1),
            number(SAFE.0),
            number(SAFE.1),
            number(self.safety)
        );
        vec![
            ("policy", format!("l_t = f_t * ({loss})")),
            ("ratio", format!("rho_t = exp(x_t), {LOG_RATIO}")),
            ("front", factor),
        ]
    }
}
