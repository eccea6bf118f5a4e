//! Whole runs with `engine=candle` on the CPU next to those of the CPU's own engine.

use std::path::Path;

use grpo_lambda_candle::WithCandle;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::train::{Local, RunSummary, train};

use crate::common::{OWN_SAMPLERS, assert_the_same_to_rounding, column, stopped_after, with, words};
use crate::long;

/// Supervised learning and RL with a KL term, of a very small model.
const RUN: &str = "task.kind=addition model.hidden=16 model.layers=2 model.heads=2 model.kv_heads=1 model.intermediate=24 \
                   sft.steps=3 sft.batch=4 sft.warmup=1 rl.steps=3 rl.prompts_per_step=3 rl.group_size=4 rl.max_new_tokens=5 \
                   rl.lr=1e-3 eval.n=4 eval.every=0 method.beta=0.04 checkpoint.every=1 checkpoint.keep=9 device=cpu";

fn run(config: &Config, directory: &Path) -> RunSummary {
    train(&WithCandle(&Local), config, (directory, false), "test").unwrap()
}

/// The configuration of [`RUN`] with these settings, for either engine.
fn configs(more: &[&str]) -> [Config; 2] {
    ["engine=own", "engine=candle"]
        .map(|e| Config::resolve("tiny", &with(RUN, &[more, &[e]].concat())).unwrap())
}

#[test]
fn a_run_learns_what_the_cpu_learns_and_goes_on_from_either_engine_in_the_other() {
    let bonus = ["rl.entropy_coef=0.5"];
    let adaptive = ["rl.entropy_coef=0.5", "rl.entropy_target=100"];
    for more in [&[][..], &["lora.rank=2", "lora.targets=q_proj,down_proj"], &bonus, &adaptive] {
        let configs = configs(more);
        let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let runs = [0, 1].map(|i| run(&configs[i], places[i].path()));
        assert_the_same_to_rounding(places[1].path(), places[0].path(), [3, 3]);
        let error = column(places[1].path(), "rl", "logp_error_max");
        assert!(error.iter().all(|e| (1.0..1.0 + 1e-4).contains(e)), "{error:?}");
        assert_eq!(runs[0].accuracy_after, runs[1].accuracy_after);
        // Stopped in the middle of either stage, and continued by the other engine.
        for (i, step) in [(0, 2), (1, 2), (0, 4), (1, 4)] {
            let there = places[i].path();
            let left = stopped_after(step, there);
            let finished = run(&configs[1 - i], left.path());
            assert_eq!(finished.steps, runs[i].steps);
            assert_the_same_to_rounding(left.path(), there, [3, 3]);
            let events = std::fs::read_to_string(left.path().join("log.txt")).unwrap_or_default();
            assert!(events.is_empty() || events.contains("by candle"), "{events}");
        }
    }
}

#[test]
fn trees_and_completions_train_by_candle_as_on_the_cpu() {
    for sampler in OWN_SAMPLERS {
        let runs = configs(&words(sampler)).map(|config| {
            let place = tempfile::tempdir().unwrap();
            run(&config, place.path());
            place
        });
        assert_the_same_to_rounding(runs[1].path(), runs[0].path(), [3, 3]);
        let norms = column(runs[0].path(), "rl", "grad_norm");
        assert!(norms.iter().all(|norm| *norm > 0.0), "{sampler:?}: {norms:?}");
    }
}

#[test]
fn settings_that_candle_has_not_are_refused_before_anything_is_written() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    let [_, config] = configs(&["method.name=oar_g"]);
    let error = train(&WithCandle(&Local), &config, (&directory, false), "test").unwrap_err();
    let expected = "is only supported by our own decoder on the CPU; set engine=own device=cpu";
    assert!(error.refused() && error.to_string().contains(expected) && !directory.exists(), "{error}");
}

/// A model that adds: from supervised learning, and then from rewards.
#[test]
fn a_run_by_candle_is_as_accurate_as_that_of_the_cpu() {
    let steps = long::of("sft.steps=150", "sft.steps=600");
    let more = "model.hidden=64 model.intermediate=128 sft.batch=16 sft.worked_share=1 sft.lr=3e-3 eval.n=100 rl.steps=3 checkpoint.every=1000";
    let accuracy = configs(&[&[steps][..], &words(more)].concat()).map(|config| {
        let place = tempfile::tempdir().unwrap();
        run(&config, place.path()).accuracy_after
    });
    println!("{accuracy:?}");
    assert!(accuracy[0] > long::of(0.2, 0.6) && (accuracy[0] - accuracy[1]).abs() < 0.1, "{accuracy:?}");
}
