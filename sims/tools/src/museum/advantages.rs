//! From rewards to advantages.

use super::Case;
use grpo_lambda::advantage::{Baseline, OutcomeAdvantage, Scale, Std};
use serde_json::json;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![missing(), interleaved(), single(), close()]
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
