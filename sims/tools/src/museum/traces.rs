//! Quantities along the tokens of a response: advantages with a critic, and the trace.

use super::Case;
use grpo_lambda::advantage::gae;
use grpo_lambda::padded;
use grpo_lambda::trace::{Both, Recent, Trace};
use serde_json::json;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![masked_gae(), trace_weights()]
}

fn masked_gae() -> Case {
    const MASK: [bool; 7] = [false, true, true, false, false, true, true];
    const VALUES: [f64; 7] = [9.0, 0.5, 0.25, 6.0, -4.0, 0.75, 0.5];
    const REWARDS: [f64; 7] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    let (gamma, lambda) = (1.0, 0.9);
    let own = |x: &[f64]| padded::compress(x, &MASK);
    let right = gae(&own(&REWARDS), &own(&VALUES), gamma, lambda);
    let leaking = own(&gae(&REWARDS, &VALUES, gamma, lambda));
    let zeroed: Vec<f64> = VALUES.iter().zip(MASK).map(|(v, mask)| if mask { *v } else { 0.0 }).collect();
    let decaying = own(&gae(&REWARDS, &zeroed, gamma, lambda));
    let slots = |rows: &[f64]| padded::scatter(rows, &MASK, 0.0);
    let mut first = right.clone();
    first.resize(MASK.len(), 0.0);
    Case::new(
        "masked_gae",
        "generalised advantages at every slot of a row, 0 where the mask is 0: the policy's tokens follow each other as if the slots between \
         them (padding, a tool's output) were not there",
        json!({"mask": MASK.map(u8::from), "values": VALUES, "rewards": REWARDS, "gamma": gamma, "lambda": lambda}),
    )
    .right("over the trained tokens", slots(&right))
    .wrong(&["B22"], "values of masked slots leak in", slots(&leaking))
    .wrong(&["B22"], "masked slots have value 0 and decay credit", slots(&decaying))
    .wrong(&["B19"], "written to the first slots, as if the padding were at the end", first)
}

fn trace_weights() -> Case {
    let (lambda, length) = (0.9, 6);
    let powers = (0..length).map(|k| f64::powi(lambda, length - 1 - k)).collect();
    let length = length as usize;
    Case::new(
        "trace_weights",
        "the weight of each token in the on-policy gradient of GRPO-lambda, epsilon-trace, gamma = 1: its gradient by the token's \
         log-probability divided by GRPO's with the same advantage and reduction",
        json!({"lambda": lambda, "length": length}),
    )
    .right("style recent: sum of lambda^j over the tokens left", Recent { q: lambda }.column_sums(length))
    .right("style both", Both { q: lambda }.column_sums(length))
    .wrong(&["B38"], "lambda^(T-1-t)", powers)
}
