//! A lucky guess after a flawed step: what a trace can and cannot do about it.

use crate::laboratory::{self, laid_out, update};
use grpo_lambda::group::{ExtraInputs, Group, Response, StepValue};
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::{Fork, LuckyGuess};

/// First edges of the prompt in [`LuckyGuess`] and in a fork whose second branch is flawed.
const SOUND: usize = 0;
const FLAWED: usize = 1;

#[test]
fn at_equal_lengths_a_trace_gives_the_flawed_step_what_grpo_gives_it_times_one_number() {
    for luck in [0.0, 0.25, 0.6] {
        let (tree, policy) = laid_out(&LuckyGuess { luck, ..LuckyGuess::default() });
        let grpo = update("grpo reduction=token_mean", &tree, &policy, 8);
        for style in ["recent", "both"] {
            let ours = update(&format!("grpo_lambda style={style} clamp=none"), &tree, &policy, 8);
            let factor = ours[SOUND] / grpo[SOUND];
            assert!(factor > 1.0 && (ours[FLAWED] - factor * grpo[FLAWED]).abs() < 1e-12, "{style} {luck}");
            assert!(ours[FLAWED] < 0.0, "the flaw is lowered in expectation by both");
        }
    }
}

#[test]
fn with_the_clamp_a_longer_flawed_response_is_raised_in_expectation_though_its_value_is_lower() {
    let step = |length: usize, words: &str| {
        let (tree, policy) = laid_out(&Fork::two([6, length], [0.76, 0.6], 0.5));
        assert!(Oracle::new(&tree, &policy).advantage(FLAWED) < 0.0);
        update(words, &tree, &policy, 8)[FLAWED]
    };
    assert!(step(6, "grpo_lambda") < 0.0 && step(48, "grpo_lambda") > 0.0);
    // Of two branches the worse one has the negative mean credit; only the clamp makes it positive.
    assert!(step(6, "grpo_lambda clamp=none") < 0.0 && step(48, "grpo_lambda clamp=none") < 0.0);
    // The clamp alone does it no more than the trace alone.
    assert!(step(48, "grpo reduction=token_mean clamp=-0.1") < 0.0);
}

#[test]
fn in_the_lucky_response_itself_outcomes_praise_the_flaw_and_values_blame_it() {
    // Two tokens, a step and a guess: V(prompt) = 0.5, V(flawed) = 0.25, V(sound) = 0.75. Both responses of the first kind of group
    // are rewarded or not as `rewards` says; the flawed one comes first.
    let response = |reward: f64, after: f64| {
        let steps = vec![StepValue { start: 0, value: 0.5 }, StepValue { start: 1, value: after }];
        let extra_inputs = ExtraInputs { steps: Some(steps), ..ExtraInputs::default() };
        Response { extra_inputs, ..Response::graded(vec![-0.7, -0.7], reward) }
    };
    let batch = [Group { responses: vec![response(1.0, 0.25), response(0.0, 0.75)] }];
    let advantage = |name: &str| laboratory::advantages(name, "", &batch)[0][0];
    assert!(advantage("grpo") > 0.0);
    assert!(advantage("grpo_lambda") > 0.0);
    assert!((advantage("vine_ppo") + 0.25).abs() < 1e-15);
}
