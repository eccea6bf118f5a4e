//! What a token weighs on-policy: the gradient of the method itself, measured against plain GRPO.

use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Method, evaluate};

/// The weight of every token of a right response of `len` tokens, on-policy, where every token of GRPO with a token mean weighs 1.
///
/// ```text
/// w_t = -(∂L/∂log π(a_t|s_t)) · 2 len / A
/// ```
/// from the loss of one group of two responses of this length, one right (advantage `A`) and one wrong. The scale of the
/// advantage itself (standardised, leave-one-out) is divided out; a trace, a reduction and a clamp are not. NaN where the
/// method gives the right response no advantage.
///
/// ```
/// use grpo_lambda::methods::parse;
/// use grpo_lambda_llm::token_weight::on_policy;
/// assert_eq!(on_policy(parse("grpo", "").unwrap().method.as_ref(), 3), [1.0; 3]);
/// // The trace `recent`: w_t = 1 + λ + ... + λ^(T-1-t).
/// let weights = on_policy(parse("grpo_lambda", "lambda=0.5").unwrap().method.as_ref(), 3);
/// assert_eq!(weights, [1.75, 1.5, 1.0]);
/// ```
///
/// # Panics
/// If `len` is 0, or longer than the method takes.
pub fn on_policy(method: &dyn Method, len: usize) -> Vec<f64> {
    assert!(len > 0, "a response has at least one token");
    let response =
        |reward| Response { ref_logps: Some(vec![-1.0; len]), ..Response::graded(vec![-1.0; len], reward) };
    let group = Group { responses: vec![response(1.0), response(0.0)] };
    let batch = evaluate(method, &[group], &vec![vec![-1.0; len]; 2]);
    let advantage = batch.advantages[0].iter().copied().find(|a| *a != 0.0).unwrap_or(f64::NAN);
    batch.dlogps[0].iter().map(|d| -d * 2.0 * len as f64 / advantage).collect()
}

/// The mean of [`on_policy`]: the factor by which the method's gradient is longer than GRPO's if all tokens agreed.
///
/// # Panics
/// As [`on_policy`].
pub fn mean_on_policy(method: &dyn Method, len: usize) -> f64 {
    on_policy(method, len).iter().sum::<f64>() / len as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::methods::parse;

    fn mean(name: &str, settings: &str, len: usize) -> f64 {
        mean_on_policy(parse(name, settings).expect("valid").method.as_ref(), len)
    }

    #[test]
    fn the_mean_weight_of_the_recent_trace_is_its_closed_form() {
        for (lambda, len) in [(0.99f64, 64), (0.9, 17), (0.5, 1)] {
            // mean over t of (1 - λ^(T-t)) / (1 - λ)
            let t = len as f64;
            let closed = (1.0 - lambda * (1.0 - lambda.powf(t)) / ((1.0 - lambda) * t)) / (1.0 - lambda);
            let found = mean("grpo_lambda", &format!("lambda={lambda}"), len);
            assert!((found / closed - 1.0).abs() < 1e-12, "λ = {lambda}, T = {len}: {found} and {closed}");
        }
    }

    #[test]
    fn methods_without_a_trace_weigh_one_whatever_the_scale_of_their_advantages() {
        for (name, settings) in [("grpo", ""), ("grpo", "scale=none"), ("grpo_lambda", "lambda=0")] {
            assert!(
                (mean(name, settings, 9) - 1.0).abs() < 1e-12,
                "{name} {settings}: {}",
                mean(name, settings, 9)
            );
        }
    }

    #[test]
    fn a_reduction_that_sums_over_tokens_weighs_the_length() {
        assert!((mean("rloo", "", 9) - 9.0).abs() < 1e-12);
        assert!((mean("dr_grpo", "max_length=36", 9) - 0.25).abs() < 1e-12);
    }

    /// Why a rate multiplied by the mean weight overcorrects here: the optimiser takes a common factor out by itself.
    #[test]
    fn a_constant_factor_of_the_gradient_changes_no_step_of_adamw() {
        use crate::optim::{AdamW, AdamWSettings};
        let settings = AdamWSettings { max_grad_norm: None, ..AdamWSettings::default() };
        let weights = |factor: f32| {
            let mut optimiser = AdamW::new(settings.clone(), [("w".to_owned(), vec![0.5f32, -0.25])]);
            for gradient in [[0.3f32, -0.7], [0.1, 0.4], [-0.2, 0.9]] {
                optimiser.step(0.01, &[("w", &gradient.map(|g| factor * g))]).expect("finite");
            }
            optimiser.weights("w").expect("there").to_vec()
        };
        for (a, b) in weights(1.0).iter().zip(weights(27.0)) {
            assert!((a - b).abs() < 1e-6, "{a} and {b}");
        }
    }

    #[test]
    fn the_normalised_trace_has_mean_one() {
        assert!((mean("grpo_lambda", "normalise=mean", 40) - 1.0).abs() < 1e-12);
    }
}
