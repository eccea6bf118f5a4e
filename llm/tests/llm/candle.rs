//! Whole runs with `engine=candle` on the CPU beside those of the CPU's own engine.

use std::fs;
use std::path::Path;

use grpo_lambda_candle::WithCandle;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::train::{Local, RunSummary, train};

use crate::common::{column, with};
use crate::long;

/// Supervised learning and RL with a KL term, of a very small model.
const RUN: &str = "task.kind=addition model.hidden=16 model.layers=2 model.heads=2 model.kv_heads=1 model.intermediate=24 \
                   sft.steps=3 sft.batch=4 sft.warmup=1 rl.steps=3 rl.prompts_per_step=3 rl.group_size=4 rl.max_new_tokens=5 \
                   rl.lr=1e-3 eval.n=4 eval.every=0 method.beta=0.04 checkpoint.every=1 checkpoint.keep=9 device=cpu";

fn run(config: &Config, directory: &Path) -> RunSummary {
    train(&WithCandle(&Local), config, directory, "test").unwrap()
}

/// The configuration of [`RUN`] with these settings, for either engine.
fn configs(more: &[&str]) -> [Config; 2] {
    ["engine=own", "engine=candle"]
        .map(|e| Config::resolve("tiny", &with(RUN, &[more, &[e]].concat())).unwrap())
}

#[track_caller]
fn the_same_to_rounding(a: &Path, b: &Path) {
    for (stage, name) in [
        ("sft", "loss"),
        ("sft", "grad_norm"),
        ("rl", "loss"),
        ("rl", "kl"),
        ("rl", "entropy"),
        ("rl", "tokens"),
    ] {
        let (a, b) = (column(a, stage, name), column(b, stage, name));
        assert_eq!((a.len(), b.len()), (3, 3));
        for (step, (a, b)) in a.iter().zip(&b).enumerate() {
            assert!((a - b).abs() < 1e-4 * b.abs().max(1.0), "{stage} {name}, step {step}: {a} for {b}");
        }
    }
}

#[test]
fn a_run_learns_what_the_cpu_learns_and_goes_on_from_either_engine_in_the_other() {
    for more in [&[][..], &["lora.rank=2", "lora.targets=q_proj,down_proj"]] {
        let configs = configs(more);
        let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let runs = [0, 1].map(|i| run(&configs[i], places[i].path()));
        the_same_to_rounding(places[1].path(), places[0].path());
        let error = column(places[1].path(), "rl", "logp_error_max");
        assert!(error.iter().all(|e| (1.0..1.0 + 1e-4).contains(e)), "{error:?}");
        assert_eq!(runs[0].accuracy_after, runs[1].accuracy_after);
        // Stopped in the middle of either stage, and continued by the other engine.
        for (i, step) in [(0, 2), (1, 2), (0, 4), (1, 4)] {
            let there = places[i].path();
            let left = tempfile::tempdir().unwrap();
            crate::common::copy(there, left.path());
            fs::remove_file(left.path().join("summary.json")).unwrap();
            for entry in fs::read_dir(left.path().join("checkpoints")).unwrap() {
                let path = entry.unwrap().path();
                let of = path.file_name().unwrap().to_str().unwrap().rsplit('-').next().unwrap();
                if of.parse::<u64>().unwrap() > step {
                    fs::remove_dir_all(&path).unwrap();
                }
            }
            let finished = run(&configs[1 - i], left.path());
            assert_eq!(finished.steps, runs[i].steps);
            the_same_to_rounding(left.path(), there);
            let events = fs::read_to_string(left.path().join("log.txt")).unwrap_or_default();
            assert!(events.is_empty() || events.contains("by candle"), "{events}");
        }
    }
}

#[test]
fn settings_that_candle_has_not_are_refused_before_anything_is_written() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    for (settings, expected) in [
        (&["shards=2"][..], "shards = 2: "),
        (
            &["method.name=oar_g"],
            "is only supported by our own decoder on the CPU; set engine=own device=cpu",
        ),
    ] {
        let [_, config] = configs(settings);
        let error = train(&WithCandle(&Local), &config, &directory, "test").unwrap_err();
        assert!(error.refused() && error.to_string().contains(expected) && !directory.exists(), "{error}");
    }
}

/// A model that adds: from supervised learning, and then from rewards.
#[test]
fn a_run_by_candle_is_as_accurate_as_that_of_the_cpu() {
    let steps = long::of("sft.steps=150", "sft.steps=600");
    let more = [
        steps,
        "model.hidden=64",
        "model.intermediate=128",
        "sft.batch=16",
        "sft.worked_share=1",
        "sft.lr=3e-3",
        "eval.n=100",
        "rl.steps=3",
        "checkpoint.every=1000",
    ];
    let accuracy = configs(&more).map(|config| {
        let place = tempfile::tempdir().unwrap();
        run(&config, place.path()).accuracy_after
    });
    println!("{accuracy:?}");
    assert!(accuracy[0] > long::of(0.2, 0.6) && (accuracy[0] - accuracy[1]).abs() < 0.1, "{accuracy:?}");
}
