//! The weight of each token in a method's on-policy gradient, computed by the method itself.
//!
//! With `N` tokens in the batch and advantage `A`, the weight of token `t` is
//!
//! ```text
//! w_t = -N/A d L_policy / d log pi(a_t|s_t)
//! ```
//! GRPO with a token mean has `w_t = 1` everywhere. The mean over a response's tokens is the factor by which a method's gradient
//! exceeds that, which acts like a larger learning rate (for an optimiser without normalisation) and a smaller KL coefficient.

use crate::group::{ExtraInputs, Group, InputKind, Response};
use crate::methods::{self, Configured};

/// Log-probability of every token where weights depend on it (the soft clamp of GRPO-lambda's `update=weight`).
pub const LOG_PROB: f64 = -1.0;

/// The weight of every token of a right response of `len` tokens next to a wrong one of the same length, on-policy, the KL term
/// left out.
///
/// `A` is the response's largest advantage, so a method that credits one token alone has weight 1 there. Extra inputs are neutral, see
/// [`assumed`]. Where a method has no policy term for such a response, every weight is 0.
///
/// # Panics
/// If `len` is 0 or longer than the method's `max_len`.
///
/// ```
/// use grpo_lambda::token_weights::token_weights;
/// let method = grpo_lambda::methods::parse("grpo_lambda", "lambda=0.5").unwrap();
/// assert_eq!(token_weights(&method, 3), [1.75, 1.5, 1.0]); // 1 + 1/2 + 1/4, 1 + 1/2, 1
/// ```
pub fn token_weights(configured: &Configured, len: usize) -> Vec<f64> {
    let policy_term = without_kl(configured);
    let method = policy_term.as_ref().map_or(configured.method.as_ref(), |c| c.method.as_ref());
    let response = |reward| Response {
        tokens: vec![if reward == 1.0 { 1 } else { 0 }; len],
        ref_logps: Some(vec![LOG_PROB; len]),
        extra_inputs: ExtraInputs::neutral(len, LOG_PROB),
        ..Response::graded(vec![LOG_PROB; len], reward)
    };
    let group = Group { responses: vec![response(1.0), response(0.0)] };
    let batch = methods::evaluate(method, &[group], &vec![vec![LOG_PROB; len]; 2]);
    let advantage = batch.advantages[0].iter().fold(0.0, |a: f64, b| if b.abs() > a.abs() { *b } else { a });
    if advantage == 0.0 {
        return vec![0.0; len];
    }
    batch.dlogps[0].iter().map(|d| -d * (2 * len) as f64 / advantage).collect()
}

/// The neutral extra inputs that [`token_weights`] assumes where a method reads extra inputs, in words.
///
/// ```
/// use grpo_lambda::group::InputKind;
/// let entropies = grpo_lambda::token_weights::assumed(InputKind::Entropies);
/// assert_eq!(entropies, Some("every token has the same entropy, above any threshold"));
/// ```
pub fn assumed(kind: InputKind) -> Option<&'static str> {
    match kind {
        InputKind::Tokens => Some("the two responses part at their first token"),
        // `None` for the reference: the KL term is left out, and a penalty in the reward is 0 where the policy is the reference.
        kind => kind.neutral(),
    }
}

/// The mean of [`token_weights`].
///
/// # Panics
/// As [`token_weights`].
pub fn mean_token_weight(configured: &Configured, len: usize) -> f64 {
    token_weights(configured, len).iter().sum::<f64>() / len as f64
}

/// The method with `beta = 0`, if it has a `beta`.
fn without_kl(configured: &Configured) -> Option<Configured> {
    configured.settings.has("beta").then(|| {
        let value = |(k, v): (&str, &str)| (k.to_owned(), if k == "beta" { "0" } else { v }.to_owned());
        let settings: Vec<_> = configured.settings.entries().map(value).collect();
        methods::configure(configured.spec.name, &settings).expect("0 is a coefficient like any other")
    })
}
