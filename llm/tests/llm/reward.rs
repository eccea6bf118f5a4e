//! A training run that composes its reward of components.

use std::path::Path;

use crate::common::{assert_has, assert_same_run, json_lines, rows, stop_after, words};

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
    assert_has(warnings[0], "reward.format was 0 for every response of 3 steps in a row");
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
    assert_same_run(&whole, &broken);
}
