//! Log-probabilities, positions and masks: what happens between the model and the loss.

use super::Case;
use serde_json::json;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![log_probabilities(), truncated(), rotary(), positions(), trained_tokens()]
}

/// `ln softmax(logits / temperature)`.
fn log_softmax(logits: &[f64], temperature: f64) -> Vec<f64> {
    let largest = logits.iter().fold(f64::NEG_INFINITY, |m, x| m.max(x / temperature));
    let sum: f64 = logits.iter().map(|x| (x / temperature - largest).exp()).sum();
    logits.iter().map(|x| x / temperature - largest - sum.ln()).collect()
}

fn log_probabilities() -> Case {
    const TOKENS: [usize; 6] = [1, 3, 0, 2, 2, 1];
    let (prompt, temperature) = (2, 0.6);
    let logits: Vec<Vec<f64>> =
        (0..6).map(|i| (0..4).map(|j| ((i * 7 + j * 5) % 11) as f64 / 4.0 - 1.25).collect()).collect();
    let logps = |before: usize, temperature: f64| -> Vec<f64> {
        (prompt..6).map(|t| log_softmax(&logits[t - before], temperature)[TOKENS[t]]).collect()
    };
    let right = logps(1, temperature);
    let mut shifted = right.clone();
    shifted.rotate_right(1);
    Case::new(
        "log_probabilities",
        "the log-probability of each response token (those from prompt_length on) at the sampling temperature; logits[t] is what the model \
         says once it has read tokens[0] to tokens[t]",
        json!({"tokens": TOKENS, "prompt_length": prompt, "temperature": temperature, "logits": logits}),
    )
    .right("log softmax(logits / temperature) of the token before", right)
    .wrong(&["B1", "B2"], "the temperature is ignored", logps(1, 1.0))
    .wrong(&["B15"], "logits of the token's own position", logps(0, temperature))
    .wrong(&["B16"], "shifted by one against the tokens", shifted)
}

fn truncated() -> Case {
    let probabilities: [f64; 4] = [0.15, 0.5, 0.1, 0.25];
    let logits = probabilities.map(|p| p.ln() + 3.0);
    let kept = 0.5 + 0.25;
    Case::new(
        "truncated_log_probabilities",
        "the log-probability that a sampler with top_k reports of tokens 1 and 3, which it may draw",
        json!({"logits": logits, "temperature": 1.0, "top_k": 2, "tokens": [1, 3]}),
    )
    .right("among the tokens that are kept", vec![(0.5f64 / kept).ln(), (0.25f64 / kept).ln()])
    .wrong(
        &["B3"],
        "among all tokens: a ratio to it carries the mass kept",
        vec![0.5f64.ln(), 0.25f64.ln()],
    )
}

/// The nearest number with the 8 significant bits of bf16, for numbers far from its limits.
fn bf16(x: f64) -> f64 {
    let bits = (x as f32).to_bits();
    let rounded = bits + 0x7fff + ((bits >> 16) & 1);
    f64::from(f32::from_bits(rounded & 0xffff_0000))
}

fn rotary() -> Case {
    let (position, base, dimension) = (15_962.0, 10_000f64, 8i32);
    let angles = |position: f64| -> Vec<f64> {
        (0..dimension / 2)
            .map(|i| (position * base.powf(-2.0 * f64::from(i) / f64::from(dimension))).cos())
            .collect()
    };
    Case::new(
        "rotary_angles",
        "the cosines of the rotary embedding at this position: cos(position base^(-2 i / head_dim)) for i below head_dim / 2",
        json!({"position": position, "rope_theta": base, "head_dim": dimension}),
    )
    .right("angles in f32 or wider", angles(position))
    .wrong(&["B18"], "the position was rounded to bf16", angles(bf16(position)))
}

fn positions() -> Case {
    Case::new(
        "position_ids",
        "the position ids of the slots whose attention_mask is 1",
        json!({"attention_mask": [0, 0, 0, 1, 1, 1, 1]}),
    )
    .right("counted from the first token", vec![0.0, 1.0, 2.0, 3.0])
    .wrong(&["B17", "B19"], "counted from the first slot, padding included", vec![3.0, 4.0, 5.0, 6.0])
}

fn trained_tokens() -> Case {
    Case::new(
        "trained_tokens",
        "the loss mask of a row: 1 where a slot holds a sampled token, the end token included; the row was sampled up to its first end token \
         after the prompt, and padded",
        json!({"tokens": [7, 2, 9, 5, 2, 2, 2], "prompt_length": 2, "eos_token_id": 2, "pad_token_id": 2}),
    )
    .right("by length", vec![0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    .wrong(&["B20"], "the end token is masked because it pads", vec![0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    .wrong(&["B20"], "slots after the end token count", vec![0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
}
