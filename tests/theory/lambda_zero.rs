//! λ = 0 and GRPO.

use crate::laboratory::method;
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{self, BatchLoss};
use proptest::prelude::*;

fn evaluate(name: &str, settings: &str, group: &Group, logps: &[Vec<f64>]) -> BatchLoss {
    let method = method(name, settings);
    methods::evaluate(method.as_ref(), std::slice::from_ref(group), logps)
}

/// A group of responses of 1 to 9 tokens with binary rewards, and current log-probabilities.
fn batch() -> impl Strategy<Value = (Group, Vec<Vec<f64>>)> {
    let token = (-3.0..-0.01, -0.6..0.6);
    let response = (any::<bool>(), proptest::collection::vec(token, 1..=9));
    proptest::collection::vec(response, 2..=6).prop_map(|responses| {
        let logps = responses.iter().map(|(_, t)| t.iter().map(|(old, step)| old + step).collect()).collect();
        let graded = |(right, tokens): &(bool, Vec<(f64, f64)>)| {
            Response::graded(tokens.iter().map(|t| t.0).collect(), f64::from(*right))
        };
        (Group { responses: responses.iter().map(graded).collect() }, logps)
    })
}

proptest! {
    #[test]
    fn recent_without_clamp_is_grpo_to_the_last_bit_on_and_off_policy((group, logps) in batch()) {
        for extra in ["", "matrix=as_printed", "matrix=row_index", "normalise=rows"] {
            let ours = evaluate("grpo_lambda", &format!("lambda=0 clamp=none {extra}"), &group, &logps);
            let grpo = evaluate("grpo", "reduction=token_mean", &group, &logps);
            prop_assert_eq!(ours.value, grpo.value);
            prop_assert_eq!(ours.dlogps, grpo.dlogps);
        }
    }
}
