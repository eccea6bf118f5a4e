mod layout;
mod program;
mod stuck;

use grpo_lambda::assignment::Overlong;
use grpo_lambda_grade::{Extraction, Gold};
use grpo_lambda_trainer::config::{Config, fields};
use grpo_lambda_trainer::reward::{ACCURACY, Pattern, REGISTRY, RewardBreakdown, RewardConfig, RewardInput};

fn config(weights: [f64; 4]) -> RewardConfig {
    let overlong = Overlong { limit: 10.0, cache: 4.0 };
    let weights = [&weights[..], &[0.0; 3]].concat();
    RewardConfig { weights, overlong, pattern: None, command: None, stuck_steps: 3 }
}

#[test]
fn a_pattern_is_worth_1_where_it_matches_and_a_program_what_it_says() {
    let reward = RewardConfig {
        weights: vec![0.0, 0.0, 0.0, 0.0, 2.0, 0.5, 0.0],
        pattern: Some(Pattern::new("(?s)^<think>.*boxed").expect("an expression")),
        ..config([0.0; 4])
    };
    let total = |text: &str, program: Option<f64>| {
        score(&reward, text, |input| RewardInput { program, ..input }).total
    };
    assert_eq!(total(RIGHT, Some(-3.0)), Some(2.0 - 1.5));
    assert_eq!(total("no", Some(4.0)), Some(2.0));
    assert_eq!(total(RIGHT, None), None, "a program that gives no number gives no reward");
    assert!(Pattern::new("(a").expect_err("unclosed").contains("unclosed group"));
}

const RIGHT: &str = "<think>\n1+1\n</think>\n<answer>\n\\boxed{2}\n</answer>";

/// The reward of a text for a problem whose answer is 2, with what `change` says of it.
fn score(
    reward: &RewardConfig,
    text: &str,
    change: impl FnOnce(RewardInput<'_>) -> RewardInput<'_>,
) -> RewardBreakdown {
    reward.score(&change(RewardInput {
        text,
        length: 1,
        problem: None,
        cut_off: false,
        gold: &Gold::from(2),
        extraction: Extraction::Boxed,
        program: None,
        draw: 0.0,
        step: 0,
        row: &Default::default(),
    }))
}

fn breakdown(weights: [f64; 4], text: &str, length: usize) -> RewardBreakdown {
    score(&config(weights), text, |input| RewardInput { length, ..input })
}

#[test]
fn accuracy_comes_first() {
    assert_eq!(REGISTRY[ACCURACY].name, "accuracy");
    assert!(REGISTRY.iter().all(|c| c.column == format!("reward_{}", c.name)));
    let has_weight = |key: String| fields().any(|f| f.key == key);
    assert!(REGISTRY.iter().all(|c| has_weight(format!("reward.{}", c.name))));
    assert_eq!(breakdown([0.0, 1.0, 0.0, 0.0], RIGHT, 1).accuracy(), Some(1.0));
}

#[test]
fn a_reward_is_the_weighted_sum_of_its_components() {
    // 2·1 + 0.5·1 + 3·1 + 0.25·(6 - 8)/4
    assert_eq!(breakdown([2.0, 0.5, 3.0, 0.25], RIGHT, 8).total, Some(5.375));
    // Wrong, without the format, one of four tags: 0 + 0 + 0.25·3 - 0.25.
    let wrong = "<think>\n1+1 \\boxed{3}";
    assert_eq!(breakdown([2.0, 0.5, 3.0, 0.25], wrong, 99).total, Some(0.5));
    assert_eq!(breakdown([1.0, 0.0, 0.0, 0.0], RIGHT, 99).total, Some(1.0));
}

#[test]
fn a_coin_reads_its_draw_alone() {
    let mut reward = config([0.0; 4]);
    reward.weights[REGISTRY.iter().position(|c| c.name == "coin").expect("registered")] = 2.0;
    for (draw, want) in [(0.0, 2.0), (0.499, 2.0), (0.5, 0.0), (0.999, 0.0)] {
        for text in [RIGHT, "no", ""] {
            let found = score(&reward, text, |input| RewardInput { draw, length: text.len(), ..input });
            assert_eq!(found.total, Some(want));
        }
    }
}

#[test]
fn a_component_without_a_weight_has_no_say_and_no_value() {
    let RewardBreakdown { total, components: parts } = breakdown([1.0, 0.0, 0.0, 0.0], RIGHT, 8);
    assert_eq!((total, parts), (Some(1.0), vec![Some(1.0), None, None, None, None, None, None]));
}

#[test]
fn a_response_that_cannot_be_graded_is_left_out_only_where_accuracy_counts() {
    let unreadable = "\\boxed{x y z ,, }";
    let unread = breakdown([1.0, 1.0, 0.0, 0.0], unreadable, 1);
    assert_eq!(unread.accuracy(), None, "the text must be one that the grader cannot read");
    assert_eq!(unread.total, None);
    assert_eq!(breakdown([0.0, 1.0, 1.0, 0.0], unreadable, 1).total, Some(0.0));
}

#[test]
fn layout_and_tags_are_worth_what_python_makes_of_them() {
    let cases = include_str!("../../../../../tests/fixtures/rewards.json");
    let cases: Vec<serde_json::Value> = serde_json::from_str(cases).unwrap();
    let reward = Config::resolve("tiny", &["reward.format=1", "reward.tag_count=1"]).unwrap().reward;
    let place = |name: &str| REGISTRY.iter().position(|c| c.name == name).unwrap();
    let (format, tags) = (place("format"), place("tag_count"));
    let mut seen_both = [0, 0];
    for case in &cases {
        let text = case["text"].as_str().unwrap();
        let components = score(&reward, text, |input| input).components;
        assert_eq!(components[format], case["format"].as_f64(), "{text:?}");
        assert_eq!(components[tags], case["tag_count"].as_f64(), "{text:?}");
        seen_both[usize::from(components[format] == Some(1.0))] += 1;
    }
    assert!(seen_both.iter().all(|n| *n > 100), "the cases must know both values: {seen_both:?}");
}

#[test]
fn the_overlong_penalty_is_dapos() {
    // DAPO's own numbers, scaled: limit 20480 and cache 4096, a fifth of it.
    let reward = Config::resolve("tiny", &["rl.max_new_tokens=20480", "reward.overlong=1"]).unwrap().reward;
    let at = |length| score(&reward, "", |input| RewardInput { length, ..input }).total;
    assert_eq!([16384, 18432, 20480, 30000].map(at), [Some(0.0), Some(-0.5), Some(-1.0), Some(-1.0)]);
}

#[test]
fn rows_are_read_where_a_component_with_a_weight_reads_them() {
    let with = |reads: bool| {
        let weights = REGISTRY.iter().map(|c| f64::from(u8::from(c.reads_row == reads))).collect();
        RewardConfig { weights, ..config([0.0; 4]) }
    };
    assert!(with(true).reads_rows());
    assert!(!with(false).reads_rows());
}
