//! Reductions and KL terms: gradients of a loss.

use super::Case;
use grpo_lambda::kl::Kl;
use grpo_lambda::reduction::Reduction;
use serde_json::json;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![token_mean(), constant_length(), kl_gradient(), kl_slopes()]
}

const LENGTHS: [usize; 4] = [1, 4, 2, 3];
const ADVANTAGES: [f64; 4] = [1.0, -1.0, 0.5, -0.5];
/// The responses processed together.
const MICRO_BATCHES: [&[usize]; 3] = [&[0], &[1, 2], &[3]];

/// `-w_i A_i` at every token of every response: the gradient of `-sum w_i ratio A_i` by the log-probabilities, on-policy.
fn on_policy(weight: impl Fn(usize) -> f64) -> Vec<f64> {
    (0..4).flat_map(|i| vec![-weight(i) * ADVANTAGES[i]; LENGTHS[i]]).collect()
}

fn weights(reduction: Reduction, responses: &[usize]) -> Vec<f64> {
    let lengths: Vec<Option<usize>> = responses.iter().map(|i| Some(LENGTHS[*i])).collect();
    reduction.weights(&lengths)
}

fn token_mean() -> Case {
    let right = weights(Reduction::TokenMean, &[0, 1, 2, 3]);
    let sample_wise = weights(Reduction::PerResponse, &[0, 1, 2, 3]);
    let parts = MICRO_BATCHES.len() as f64;
    let own = |i: usize| {
        let part = MICRO_BATCHES.iter().find(|part| part.contains(&i)).expect("every response has a part");
        weights(Reduction::TokenMean, part)[0] / parts
    };
    let last = |i: usize| if MICRO_BATCHES[2].contains(&i) { right[i] } else { 0.0 };
    Case::new(
        "token_mean",
        "the gradient, by the log-probability of each token in flat order, of the loss -sum ratio A / (all tokens of the step), on-policy; \
         the step takes the micro-batches one after the other, on two workers where there are workers",
        json!({"lengths": LENGTHS, "advantages": ADVANTAGES, "micro_batches": MICRO_BATCHES}),
    )
    .right("one mean over the step", on_policy(|i| right[i]))
    .wrong(&["B6"], "divided by the number of micro-batches once more", on_policy(|i| right[i] / parts))
    .wrong(&["B7"], "a mean over each micro-batch's own tokens", on_policy(own))
    .wrong(&["B8"], "a mean over each response's own tokens", on_policy(|i| sample_wise[i]))
    .wrong(&["B9"], "averaged over two workers once more", on_policy(|i| right[i] / 2.0))
    .wrong(&["B33"], "the last micro-batch's gradient alone", on_policy(last))
}

fn constant_length() -> Case {
    let max_length = 8.0;
    let right = weights(Reduction::Constant(max_length), &[0, 1, 2, 3]);
    let own = weights(Reduction::PerResponse, &[0, 1, 2, 3]);
    Case::new(
        "constant_length",
        "the gradient, by the log-probability of each token in flat order, of Dr. GRPO's loss -sum ratio A / (responses x max_length), \
         on-policy",
        json!({"lengths": LENGTHS, "advantages": ADVANTAGES, "max_length": max_length}),
    )
    .right("a constant", on_policy(|i| right[i]))
    .wrong(&["B10", "B33"], "1 / the length of each response", on_policy(|i| own[i]))
}

const POLICY: [f64; 3] = [0.404_936_202_1, 0.475_715_477_3, 0.119_348_320_6];
const REFERENCE: [f64; 3] = [0.254_036_202_1, 0.183_015_477_3, 0.562_948_320_6];

/// The slope of an estimator by the log-probability of each action, on-policy.
fn slopes(kl: Kl) -> Vec<f64> {
    (0..3).map(|a| kl.at(POLICY[a].ln(), POLICY[a].ln(), REFERENCE[a].ln()).slope).collect()
}

/// `E[slope(a) d log pi(a) / d logits]`.
fn expected(slopes: &[f64]) -> Vec<f64> {
    let slope = |b: usize| -> f64 {
        (0..3).map(|a| POLICY[a] * slopes[a] * (f64::from(u8::from(a == b)) - POLICY[b])).sum()
    };
    (0..3).map(slope).collect()
}

fn scaled(numbers: &[f64], factor: f64) -> Vec<f64> {
    numbers.iter().map(|x| factor * x).collect()
}

fn kl_gradient() -> Case {
    let right = expected(&slopes(Kl::RatioK3));
    Case::new(
        "kl_gradient",
        "the expected gradient, by the three logits, of the KL term alone with coefficient 1: the policy is the softmax of the logits, each \
         action is sampled from it and weighs as its probability",
        json!({"policy": POLICY, "reference": REFERENCE}),
    )
    .right("that of KL(policy || reference)", right.clone())
    .wrong(&["B11", "B33"], "none in expectation: k1 in the loss, of either sign", vec![0.0; 3])
    .wrong(
        &["B12"],
        "that of KL(reference || policy): k3 without the ratio in front",
        expected(&slopes(Kl::K3)),
    )
    .wrong(&["B13"], "counted twice", scaled(&right, 2.0))
    .wrong(&["B33"], "the wrong sign", scaled(&right, -1.0))
}

fn kl_slopes() -> Case {
    let right = slopes(Kl::RatioK3);
    Case::new(
        "kl_slopes",
        "the gradient of the KL term, by the log-probability of a sampled action, for each of the three actions; on-policy, coefficient 1",
        json!({"policy": POLICY, "reference": REFERENCE}),
    )
    .right("log policy - log reference: k2, or k3 times the ratio", right.clone())
    .wrong(&["B11"], "1: k1", slopes(Kl::K1))
    .wrong(&["B12"], "1 - reference / policy: k3 without the ratio in front", slopes(Kl::K3))
    .wrong(&["B13"], "counted twice", scaled(&right, 2.0))
    .wrong(&["B33"], "-1: k1 with the wrong sign", scaled(&slopes(Kl::K1), -1.0))
    .wrong(&["B33"], "the wrong sign", scaled(&right, -1.0))
}
