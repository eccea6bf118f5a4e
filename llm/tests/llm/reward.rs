//! Rewards: the layout components against Python, and a training run that composes them.

use std::path::Path;

use grpo_lambda_grade::{Extraction, Gold};
use grpo_lambda_trainer::config::{Config, fields};
use grpo_lambda_trainer::reward::{REGISTRY, RewardInput};

use crate::common::{json_lines, lasting, rows, stop_after, words};

fn refused(overrides: &str) -> String {
    Config::resolve("tiny", &words(overrides)).expect_err("must be refused").to_string()
}

#[test]
fn layout_and_tags_are_worth_what_python_makes_of_them() {
    let cases: Vec<serde_json::Value> =
        serde_json::from_str(include_str!("../fixtures/rewards.json")).unwrap();
    let weighted = ["reward.format=1", "reward.tag_count=1"];
    let reward = Config::resolve("tiny", &weighted).unwrap().reward;
    let place = |name: &str| REGISTRY.iter().position(|c| c.name == name).unwrap();
    let (format, tags) = (place("format"), place("tag_count"));
    let mut seen_both = [0, 0];
    for case in &cases {
        let text = case["text"].as_str().unwrap();
        let breakdown = reward.score(&RewardInput {
            text,
            length: 1,
            problem: None,
            cut_off: false,
            gold: &Gold::from(1),
            extraction: Extraction::Boxed,
            program: None,
            draw: 0.0,
            step: 0,
            row: &Default::default(),
        });
        assert_eq!(breakdown.components[format], case["format"].as_f64(), "{text:?}");
        assert_eq!(breakdown.components[tags], case["tag_count"].as_f64(), "{text:?}");
        seen_both[usize::from(breakdown.components[format] == Some(1.0))] += 1;
    }
    assert!(seen_both.iter().all(|n| *n > 100), "the cases must know both values: {seen_both:?}");
}

#[test]
fn every_component_has_a_weight_to_set() {
    for component in REGISTRY {
        let key = format!("reward.{}", component.name);
        assert!(fields().any(|f| f.key == key), "{key}");
    }
}

#[test]
fn the_overlong_penalty_is_dapos() {
    // DAPO's own numbers, scaled: limit 20480 and cache 4096, a fifth of it.
    let settings = ["rl.max_new_tokens=20480", "reward.overlong=1"];
    let reward = Config::resolve("tiny", &settings).unwrap().reward;
    let at = |length| {
        reward
            .score(&RewardInput {
                text: "",
                length,
                problem: None,
                cut_off: false,
                gold: &Gold::from(1),
                extraction: Extraction::Boxed,
                program: None,
                draw: 0.0,
                step: 0,
                row: &Default::default(),
            })
            .total
    };
    assert_eq!([16384, 18432, 20480, 30000].map(at), [Some(0.0), Some(-0.5), Some(-1.0), Some(-1.0)]);
}

#[test]
fn weights_that_make_no_sense_together_are_refused() {
    for (overrides, expected) in [
        ("reward.accuracy=0", "are all 0, so no response would earn anything; give one a weight"),
        ("reward.accuracy=-1", "reward.accuracy = -1: must be a number from 0 to 1000"),
        ("reward.acuracy=1", "(did you mean `reward.accuracy`?)"),
        ("reward.overlong=nan", "reward.overlong = nan: must be"),
        (
            "reward.accuracy=0 reward.format=1 rl.dynamic_sampling=true",
            "rl.dynamic_sampling = true: keeps groups with right and wrong responses",
        ),
        (
            "reward.overlong=1 method.name=dapo method.overlong_limit=64 method.overlong_cache=16",
            "are the same penalty, which would count twice",
        ),
        ("reward.overlong=1 reward.overlong_cache=65", "must be at most reward.overlong_limit = 64"),
        (
            "reward.overlong=1 reward.overlong_limit=100",
            "must be below rl.max_new_tokens = 64, or no response is ever penalised",
        ),
    ] {
        let message = refused(overrides);
        assert!(message.contains(expected), "{overrides:?}: {message}");
    }
    // A limit that is not used may be anything; DAPO's own must leave room for its cache as well.
    Config::resolve("tiny", &["reward.overlong_limit=100"]).unwrap();
    let own = ["method.name=dapo", "method.overlong_limit=64"];
    let message = Config::resolve("tiny", &own).unwrap_err().to_string();
    assert!(message.contains("at most overlong_limit = 64, or every response is penalised"), "{message}");
    Config::resolve("tiny", &[own[0], own[1], "method.overlong_cache=16"]).unwrap();
}

/// A run of a second, in which some answers are right and the layout never occurs.
const SMALL: &str = "task.kind=addition sft.steps=120 sft.lr=5e-3 rl.steps=6 rl.prompts_per_step=3 rl.group_size=4 rl.max_new_tokens=12 \
                     eval.n=10 eval.every=0 checkpoint.every=2 reward.format=0.5 reward.overlong=1 reward.overlong_limit=10 \
                     reward.overlong_cache=5 reward.stuck_steps=3";

fn train(run: &Path, more: &str) -> crate::common::Done {
    crate::common::train(run, &[&words(SMALL), &words(more)])
}

#[test]
fn a_run_reports_its_components_and_warns_once_of_one_that_is_stuck() {
    let dir = tempfile::tempdir().unwrap();
    let done = train(&dir.path().join("run"), "");
    done.output();
    let warnings: Vec<&str> = done.stderr.lines().filter(|l| l.contains("warning: reward.")).collect();
    assert_eq!(warnings.len(), 1, "{}", done.stderr);
    assert!(
        warnings[0].contains("reward.format was 0 for every response of 3 steps in a row"),
        "{}",
        warnings[0]
    );
    let rows = rows(&dir.path().join("run"), "rl");
    let stuck: Vec<f64> = rows.iter().map(|r| r["reward_stuck"].as_f64().unwrap()).collect();
    assert_eq!(stuck, [0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
    for row in &rows {
        let of = |name: &str| row[name].as_f64().unwrap();
        assert_eq!(of("reward_format"), 0.0);
        assert_eq!(of("reward_accuracy"), of("accuracy"));
        assert!((-1.0..=0.0).contains(&of("reward_overlong")));
        assert!((of("reward") - (of("reward_accuracy") + of("reward_overlong"))).abs() < 1e-12);
        assert!(row.get("reward_tag_count").is_none());
    }
    let overlong: f64 = rows.iter().map(|r| r["reward_overlong"].as_f64().unwrap()).sum();
    assert!(overlong < 0.0, "responses of up to 12 tokens must meet a limit of 10");
    let first = json_lines(&dir.path().join("run/samples.jsonl")).remove(0);
    let sum = first["rewards"]["accuracy"].as_f64().unwrap() + first["rewards"]["overlong"].as_f64().unwrap();
    assert!((first["reward"].as_f64().unwrap() - sum).abs() < 1e-12, "{first}");
}

/// The warning is due at step 3: a run that is resumed at step 2 must know of the first two, and one resumed after it must not repeat it.
#[test]
fn the_count_of_stuck_steps_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, broken) = (dir.path().join("whole"), dir.path().join("broken"));
    train(&whole, "").output();
    let mut warnings = 0;
    // A run killed after its n-th step is what its n-th checkpoint and the logs at that time hold.
    for kept in [2, 4, 6] {
        let done = train(&broken, "checkpoint.keep=200");
        warnings += done.stderr.lines().filter(|l| l.contains("warning: reward.")).count();
        done.output();
        if kept < 6 {
            stop_after(&broken, 120 + kept);
        }
    }
    // Said in the first pass, said again by the pass that repeats step 3, not said by the one that begins after it.
    assert_eq!(warnings, 2);
    let [whole, broken] = [whole, broken].map(|run| lasting(&run, &["metrics.jsonl", "samples.jsonl"]));
    assert!(whole == broken, "another end than that of an unbroken run");
}
