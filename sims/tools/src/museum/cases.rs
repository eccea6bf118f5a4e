//! The cases of the museum.

use super::Case;
use grpo_lambda::advantage::{Baseline, OutcomeAdvantage, Scale, Std, gae};
use grpo_lambda::kl::Kl;
use grpo_lambda::padded;
use grpo_lambda::reduction::Reduction;
use grpo_lambda::trace::{Both, Recent, Trace};
use serde_json::json;

/// Every case, in the order of the file.
pub fn cases() -> Vec<Case> {
    vec![
        // Log-probabilities, positions and masks: what happens between the model and the loss.
        log_probabilities(),
        truncated(),
        rotary(),
        positions(),
        trained_tokens(),
        // From rewards to advantages.
        missing(),
        interleaved(),
        single(),
        close(),
        // Reductions and KL terms: gradients of a loss.
        token_mean(),
        constant_length(),
        kl_gradient(),
        kl_slopes(),
        // Quantities along the tokens of a response: advantages with a critic, and the trace.
        masked_gae(),
        trace_weights(),
    ]
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

/// The advantages of a batch, by the conventions that a trainer may have, in flat order. What a framework adds to a deviation is left to
/// the tolerance.
fn conventions() -> Vec<(&'static str, OutcomeAdvantage)> {
    let std = |ddof| Scale::Group(Std { ddof, epsilon: 1e-6 });
    let advantage = |baseline, scale| OutcomeAdvantage { baseline, scale, clamp: None };
    vec![
        ("group mean, deviation over n - 1", advantage(Baseline::GroupMean, std(1))),
        ("group mean, deviation over n", advantage(Baseline::GroupMean, std(0))),
        ("group mean, no division", advantage(Baseline::GroupMean, Scale::None)),
        ("mean of the others, no division", advantage(Baseline::LeaveOneOut, Scale::None)),
    ]
}

type Rewards = Vec<Vec<Option<f64>>>;

fn graded(rewards: &[&[f64]]) -> Rewards {
    rewards.iter().map(|group| group.iter().copied().map(Some).collect()).collect()
}

fn missing() -> Case {
    let rewards = vec![vec![Some(1.0), None, Some(0.0), Some(0.0), Some(0.5)]];
    let as_zero = graded(&[&[1.0, 0.0, 0.0, 0.0, 0.5]]);
    let mut case = Case::new(
        "missing_reward",
        "the advantages of one group; null is a response that could not be graded, whose advantage is 0",
        json!({"rewards": rewards}),
    );
    for (words, advantage) in conventions() {
        let wrong = advantage.of_batch(&as_zero).concat();
        case = case.right(words, advantage.of_batch(&rewards).concat());
        case = case.wrong(&["B25"], &format!("null counts as 0 ({words})"), wrong);
    }
    case
}

fn interleaved() -> Case {
    const PROMPTS: [usize; 5] = [0, 1, 1, 0, 1];
    const REWARDS: [f64; 5] = [1.0, 0.5, 0.0, 0.25, 0.75];
    let mut case = Case::new(
        "interleaved_prompts",
        "the advantages of the responses in this order; prompts[i] is the prompt that response i answers",
        json!({"prompts": PROMPTS, "rewards": REWARDS}),
    );
    for (words, advantage) in conventions() {
        let mut by_prompt = [0, 1].map(|prompt| {
            let own: Vec<f64> = (0..5).filter(|i| PROMPTS[*i] == prompt).map(|i| REWARDS[i]).collect();
            advantage.of_batch(&graded(&[&own])).concat().into_iter()
        });
        let right = PROMPTS.iter().filter_map(|prompt| by_prompt[*prompt].next()).collect();
        let windows = advantage.of_batch(&graded(&[&REWARDS[..2], &REWARDS[2..]])).concat();
        let whole = advantage.of_batch(&graded(&[&REWARDS])).concat();
        case = case.right(words, right);
        case = case.wrong(&["B24"], &format!("groups are windows of the batch ({words})"), windows);
        case = case.wrong(&["B24"], &format!("the batch is one group ({words})"), whole);
    }
    case
}

fn single() -> Case {
    let rewards = graded(&[&[1.0], &[1.0, 0.0, 0.25]]);
    let mut case = Case::new(
        "group_of_one",
        "the advantages of a group of one response, then of a group of three",
        json!({"rewards": rewards}),
    );
    for (words, advantage) in conventions() {
        let right = advantage.of_batch(&rewards).concat();
        let mut wrong = right.clone();
        wrong[0] = 1.0;
        case = case.right(words, right).wrong(
            &["B23"],
            &format!("one response keeps its reward ({words})"),
            wrong,
        );
    }
    case
}

/// The share of the deviation of the others in f32 in one pass.
fn in_one_pass(rewards: &[f64]) -> Vec<f64> {
    let n = (rewards.len() - 1) as f32;
    let sum = |power: i32| rewards.iter().map(|r| (*r as f32).powi(power)).sum::<f32>();
    let (first, second) = (sum(1), sum(2));
    let advantage = |r: &f64| {
        let r = *r as f32;
        let (mean, square) = ((first - r) / n, (second - r * r) / n);
        let deviation = ((square - mean * mean).max(0.0) * n / (n - 1.0)).sqrt();
        f64::from(if deviation > 0.0 { (r - mean) / (deviation + 1e-6) } else { r - mean })
    };
    rewards.iter().map(advantage).collect()
}

fn close() -> Case {
    const REWARDS: [f64; 8] = [0.35, 0.35, 0.35, 0.35, 0.35, 0.35, 0.35, 1.0];
    let advantage = OutcomeAdvantage {
        baseline: Baseline::LeaveOneOut,
        scale: Scale::Others(Std { ddof: 1, epsilon: 1e-6 }),
        clamp: None,
    };
    Case::new(
        "equal_others",
        "each reward minus the mean of the others of its group, divided by their deviation (over n - 1) plus 1e-6, and not divided where the \
         others agree",
        json!({"rewards": REWARDS}),
    )
    .right("the others of the last response agree", advantage.of_batch(&graded(&[&REWARDS])).concat())
    .wrong(&["B26"], "the deviation is E[x^2] - E[x]^2 in f32, and noise", in_one_pass(&REWARDS))
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
