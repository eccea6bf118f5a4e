//! What must not change a step of training, on the trainer that runs: sampler, credit, backward pass, optimiser.
//!
//! | whatever the .. | nothing changes but .. | held by |
//! | --- | --- | --- |
//! | side of the padding | nothing: rows are packed; padded ones are compressed first | `tests/theory/conformance/left_out.rs`, `bindings/python/tests/test_padded.py` |
//! | order of groups and of responses | rounding | [`the_order_of_groups_and_responses_changes_a_step_by_rounding_alone`]; exactly, in the theory: `symmetries.rs` |
//! | other prompts, size of the group, for what is sampled | nothing | `known_bugs.rs::a_response_depends_on_seed_step_prompt_and_place_in_its_group_alone` |
//! | threads | nothing | `train.rs::methods_that_ask_the_model_again_resume_to_the_same_bytes_with_any_threads_and_micro_batches` |
//! | cut into micro-batches, recomputation, reduction, inner updates | nothing | `known_bugs.rs::micro_batches_and_recomputation_do_not_change_a_step_whatever_the_reduction` |
//! | shared prefixes, passes | nothing | `crates/decoder/tests/decoder/shared.rs` |
//! | chunks of attention and vocabulary, batch of scoring | nothing | `crates/decoder/tests/decoder/exact.rs` |
//! | data type | rounding | [`in_double_precision_the_gradient_is_the_same_up_to_rounding`]; on a card: `gpu_train.rs` |
//! | batch repeated, or every response twice | rounding | [`a_batch_that_is_repeated_teaches_what_it_teaches_once`] |
//! | text of a truncated response that is masked | nothing | [`what_stands_in_a_masked_response_reaches_no_weight`] |
//! | empty response | its reward counts in its group, no number is lost | [`a_response_without_a_token_counts_with_its_reward_alone`] |
//! | response of one token | it is learned from | [`responses_of_one_token_are_learned_from`] |
//! | group of one, equal rewards | no weight moves, and one update takes no pass | [`groups_that_compare_nothing_move_no_weight`] |
//! | padding token (the end token for one), BOS token | nothing | [`the_tokens_declared_as_padding_and_beginning_reach_no_weight`] |
//! | temperature as a setting, or in the weights | nothing | [`a_temperature_is_logits_divided_by_it`] |

use std::cell::RefCell;

use grpo_lambda::learner;
use grpo_lambda_decoder::model::ops::Real;
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{self, Decoder, ForwardOptions, Gradients, Rows};
use grpo_lambda_trainer::config::Config as RunConfig;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::step::{
    LlmPolicy, Observer, Phase, PolicyError, Rollout, StepContext, StepReport, StepSettings,
};

use crate::common::shape;
use crate::known_bugs::{decoder, engine, run, sampled, training_prompts, with_context};

/// With a large epsilon, no decay and no bound on the norm, a step at rate 1 moves each weight by nearly its gradient.
const LINEAR: [&str; 4] = ["seed=4", "adam.epsilon=1", "adam.weight_decay=0", "rl.grad_clip=1000000"];

/// A configuration with this method, as `method.name=.. method.key=..`.
fn config(method: &str) -> RunConfig {
    run(&[&LINEAR[..], &method.split(' ').collect::<Vec<_>>()].concat())
}

/// Three groups of four ragged responses, sampled by the test's model.
fn rollout() -> Rollout {
    let config = config("method.name=grpo");
    let mut rollout = sampled(&mut engine(decoder(&shape()), &config), &config, &training_prompts());
    for (i, response) in rollout.groups.iter_mut().flat_map(|g| &mut g.responses).enumerate() {
        let length = response.len().min(5 + 2 * i);
        response.tokens.truncate(length);
        response.old_logps.truncate(length);
        for extra_inputs in [&mut response.extra_inputs.entropies, &mut response.extra_inputs.sampler_logps] {
            extra_inputs.as_mut().unwrap().truncate(length);
        }
        response.reward = Some([1.0, 0.0, 0.5, 0.25, -1.0][i % 5]);
    }
    rollout
}

/// The weights after a step of the model on a rollout.
fn stepped(
    model: Decoder<f32>,
    config: &RunConfig,
    rollout: &Rollout,
) -> Result<(Parameters<f32>, StepReport), PolicyError> {
    let mut engine = engine(model, config);
    let report = with_context(config, |context| context.step(&mut engine, rollout, 1.0))?;
    Ok((engine.model.parameters().clone(), report))
}

/// How far each weight moves.
fn moves(method: &str, rollout: &Rollout) -> Vec<f64> {
    let model = decoder(&shape());
    let before = model.parameters().clone();
    let (after, _) = stepped(model, &config(method), rollout).unwrap();
    let numbers = |p: &Parameters<f32>| p.values().flat_map(|t| t.data.clone()).collect::<Vec<_>>();
    numbers(&after).iter().zip(numbers(&before)).map(|(a, b)| f64::from(*a) - f64::from(b)).collect()
}

/// The largest difference, in parts of the largest number.
fn apart(a: &[f64], b: &[f64]) -> f64 {
    let size = a.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    assert!(a.len() == b.len() && size > 1e-3, "nothing moves: {size}");
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max) / size
}

/// What rounding in 32 bits may change of a step.
const ROUNDING: f64 = 2e-5;

#[test]
fn the_order_of_groups_and_responses_changes_a_step_by_rounding_alone() {
    for method in
        ["method.name=grpo", "method.name=grpo_lambda", "method.name=gspo", "method.name=reinforce_pp"]
    {
        let whole = moves(method, &rollout());
        let mut turned = rollout();
        turned.prompts.reverse();
        turned.groups.reverse();
        turned.groups.iter_mut().for_each(|group| group.responses.rotate_left(1));
        assert!(apart(&whole, &moves(method, &turned)) < ROUNDING, "{method}");
        // Rewards that went to the wrong responses would be noticed.
        let responses = &mut turned.groups[0].responses;
        (responses[0].reward, responses[1].reward) = (responses[1].reward, responses[0].reward);
        assert!(apart(&whole, &moves(method, &turned)) > 1000.0 * ROUNDING, "{method}");
    }
}

/// The gradient that a decoder of this precision gives the batch's loss.
fn gradient<T: Real>(model: &Decoder<T>, rollout: &Rollout) -> Vec<f64> {
    let mut rows = Rows::new();
    for (prompt, group) in rollout.prompts.iter().zip(&rollout.groups) {
        for response in &group.responses {
            rows.push(&[&prompt.tokens[..], &response.tokens].concat(), prompt.tokens.len());
        }
    }
    let (scores, tape) = model.forward(&rows, ForwardOptions::default()).unwrap();
    let config = config("method.name=grpo");
    let loss =
        grpo_lambda::methods::evaluate(config.configured().method.as_ref(), &rollout.groups, &scores.logps);
    let mut gradients = Gradients::new(model.config(), |_| true);
    model.backward(tape, &loss.dlogps, &mut gradients);
    gradients
        .parameters()
        .values()
        .flat_map(|t| t.data.iter().map(|x| x.to_f64()).collect::<Vec<_>>())
        .collect()
}

#[test]
fn in_double_precision_the_gradient_is_the_same_up_to_rounding() {
    let single = decoder(&shape());
    let double = Decoder::new(shape(), weights::cast::<f32, f64>(single.parameters())).unwrap();
    let (single, double) = (gradient(&single, &rollout()), gradient(&double, &rollout()));
    let difference = apart(&double, &single);
    assert!(difference < ROUNDING && difference > 0.0, "{difference}");
}

#[test]
fn a_batch_that_is_repeated_teaches_what_it_teaches_once() {
    let once = rollout();
    let mut again = once.clone();
    again.prompts.extend(once.prompts.clone());
    again.groups.extend(once.groups.clone());
    for method in
        ["method.name=grpo", "method.name=grpo_lambda", "method.name=grpo method.reduction=token_mean"]
    {
        assert!(apart(&moves(method, &once), &moves(method, &again)) < ROUNDING, "{method}");
    }
    // Every response twice leaves the mean of its group, and the mean over all tokens, where they are.
    let mut doubled = once.clone();
    for group in &mut doubled.groups {
        group.responses.extend(group.responses.clone());
    }
    let method = "method.name=grpo method.scale=none method.reduction=token_mean";
    assert!(apart(&moves(method, &once), &moves(method, &doubled)) < ROUNDING);
    // RLOO leaves a response out of its own baseline: there the copy counts.
    let method = "method.name=rloo";
    assert!(apart(&moves(method, &once), &moves(method, &doubled)) > 1000.0 * ROUNDING);
}

#[test]
fn what_stands_in_a_masked_response_reaches_no_weight() {
    let with = |text: Option<u32>, masked: bool| {
        let mut rollout = rollout();
        // Other tokens than those sampled are off-policy; they are so in both cases.
        rollout.on_policy = false;
        rollout.groups.iter_mut().flat_map(|g| &mut g.responses).for_each(|r| r.truncated = false);
        let response = &mut rollout.groups[1].responses[2];
        response.truncated = true;
        if let Some(token) = text {
            response.tokens.fill(token);
        }
        let method = format!("method.name=grpo_lambda method.mask_truncated={masked}");
        stepped(decoder(&shape()), &config(&method), &rollout).unwrap().0
    };
    assert!(with(None, true) == with(Some(7), true), "a masked response moved a weight");
    assert!(with(None, false) != with(Some(7), false), "the comparison would notice nothing");
}

#[test]
fn a_response_without_a_token_counts_with_its_reward_alone() {
    // No sampler gives one, and a server's is refused; whatever else makes one, no number is lost over it.
    let mut empty = rollout();
    let response = &mut empty.groups[1].responses[0];
    (response.tokens, response.old_logps) = (Vec::new(), Vec::new());
    let mut other = empty.clone();
    other.groups[1].responses[0].reward = Some(5.0);
    let (with, of_another_reward) = (moves("method.name=grpo", &empty), moves("method.name=grpo", &other));
    assert!(with.iter().all(|x| x.is_finite()));
    assert!(apart(&with, &of_another_reward) > 1000.0 * ROUNDING, "its reward is no part of its group's");
}

#[test]
fn responses_of_one_token_are_learned_from() {
    let mut rollout = rollout();
    rollout.prompts.truncate(1);
    rollout.groups.truncate(1);
    let responses = &mut rollout.groups[0].responses;
    for response in responses.iter_mut() {
        response.tokens.truncate(1);
        response.old_logps.truncate(1);
        for extra_inputs in [&mut response.extra_inputs.entropies, &mut response.extra_inputs.sampler_logps] {
            extra_inputs.as_mut().unwrap().truncate(1);
        }
    }
    let rewards: Vec<f64> = responses.iter().filter_map(|r| r.reward).collect();
    let mean = rewards.iter().sum::<f64>() / rewards.len() as f64;
    let prompt = &rollout.prompts[0].tokens;
    let logps = |model: &Decoder<f32>| {
        let mut rows = Rows::new();
        rollout.groups[0]
            .responses
            .iter()
            .for_each(|r| rows.push(&[&prompt[..], &r.tokens].concat(), prompt.len()));
        model.score(&rows, ForwardOptions::default()).unwrap().logps
    };
    for method in ["grpo", "grpo_lambda", "gspo", "rloo", "dr_grpo"] {
        let model = decoder(&shape());
        let before = logps(&model);
        let (after, _) = stepped(model, &config(&format!("method.name={method}")), &rollout).unwrap();
        let after = logps(&Decoder::new(shape(), after).unwrap());
        // What earned more than the others became more probable.
        let gain: f64 = (0..rewards.len()).map(|i| (rewards[i] - mean) * (after[i][0] - before[i][0])).sum();
        assert!(gain > 0.0, "{method}: {before:?} became {after:?}");
    }
}

#[test]
fn groups_that_compare_nothing_move_no_weight() {
    let mut alone = rollout();
    alone.groups.iter_mut().for_each(|group| group.responses.truncate(1));
    let mut agreeing = rollout();
    for response in agreeing.groups.iter_mut().flat_map(|g| &mut g.responses) {
        response.reward = Some(0.3);
    }
    for method in ["grpo", "dr_grpo", "grpo_lambda", "gspo", "dapo", "rloo"] {
        let config = config(&format!("method.name={method}"));
        for (what, rollout) in [("one response", &alone), ("equal rewards", &agreeing)] {
            let model = decoder(&shape());
            let before = model.parameters().clone();
            let (after, report) = stepped(model, &config, rollout).unwrap();
            assert!(after == before, "{method}, {what}: a weight moved");
            assert_eq!(report.metrics.policy_loss, 0.0, "{method}, {what}");
            // A second update compares with the sampler's numbers, which takes passes.
            for (updates, passes) in [(1, 0), (2, 1)] {
                let phases = Phases::default();
                let mut engine = engine(decoder(&shape()), &config);
                with_context(&config, |context| {
                    let settings = StepSettings { inner_updates: updates, ..context.settings.clone() };
                    let context = StepContext { observer: &phases, settings: &settings, ..context };
                    context.step(&mut engine, rollout, 1.0).unwrap();
                });
                let begun = |phase| phases.0.borrow().iter().filter(|begun| **begun == phase).count();
                let found = (begun(Phase::Forward), begun(Phase::Backward));
                assert_eq!(found, (passes, passes), "{method}, {what}");
            }
        }
    }
}

/// Compares with the same update of a policy that leaves no response out.
#[test]
fn responses_without_a_gradient_are_left_out_and_change_no_bit_of_a_step() {
    let mut distinct = rollout();
    distinct.groups[1].responses.iter_mut().for_each(|response| response.reward = Some(0.3));
    distinct.groups[2].responses[1].truncated = true;
    // The first and the last group answer one prompt, and the first has no gradient.
    let mut repeated = distinct.clone();
    repeated.prompts.push(distinct.prompts[0].clone());
    repeated.groups.push(distinct.groups[0].clone());
    repeated.groups[0].responses.iter_mut().for_each(|response| response.reward = Some(0.3));
    for (method, entropy) in [
        ("grpo", 0.0),
        ("grpo method.mask_truncated=true", 0.01),
        ("grpo_lambda method.clamp=none", 0.0),
        ("gspo", 0.0),
        ("reinforce_pp", 0.0),
    ] {
        let cases = [&distinct, &repeated].into_iter().flat_map(|r| ["1", "60", "100000"].map(|b| (r, b)));
        for (rollout, budget) in cases {
            let what = format!("{method}, {} groups, {budget} tokens a pass", rollout.groups.len());
            let config = config(&format!(
                "method.name={method} rl.inner_updates=2 memory.micro_batch_tokens={budget}"
            ));
            let rollout = Rollout { entropy_coef: entropy, ..rollout.clone() };
            let (after, report) = stepped(decoder(&shape()), &config, &rollout).unwrap();
            let mut engine = engine(decoder(&shape()), &config);
            let expected = with_context(&config, |context| {
                let mut policy = LlmPolicy::new(&mut engine, context, &rollout, 1.0);
                let (prompts, groups) = (&rollout.prompts, &rollout.groups);
                learner::update(&mut policy, context.method, prompts, groups, 2).unwrap()
            });
            assert!(after == *engine.model.parameters(), "{what}");
            assert_eq!(report.metrics, expected, "{what}");
        }
    }
}

/// The phases that begin.
#[derive(Default)]
struct Phases(RefCell<Vec<Phase>>);

impl Observer for Phases {
    fn begin(&self, phase: Phase) {
        self.0.borrow_mut().push(phase);
    }
}

#[test]
fn the_tokens_declared_as_padding_and_beginning_reach_no_weight() {
    let end = ModelTokenizer::tiny().eos()[0];
    let config = config("method.name=grpo_lambda");
    let learned = |pad: Option<u32>, bos: Option<u32>| {
        let shape = model::ModelConfig { pad_token_id: pad, bos_token_id: bos, ..shape() };
        let rollout = sampled(&mut engine(decoder(&shape), &config), &config, &training_prompts());
        stepped(decoder(&shape), &config, &rollout).unwrap().0
    };
    let plain = learned(None, None);
    for (pad, bos) in [(Some(end), None), (Some(5), Some(5)), (None, Some(end)), (Some(end), Some(end))] {
        assert!(learned(pad, bos) == plain, "padding {pad:?}, beginning {bos:?}");
    }
}

#[test]
fn a_temperature_is_logits_divided_by_it() {
    let shape = model::ModelConfig { tie_word_embeddings: false, ..shape() };
    let head = "lm_head.weight";
    // A power of two, so that dividing by it rounds nothing.
    let learned = |temperature: &str, divisor: f32| {
        let model = || {
            let mut model = decoder(&shape);
            model.update(|p| p.get_mut(head).unwrap().data.iter_mut().for_each(|x| *x /= divisor));
            model
        };
        let settings = ["method.name=grpo", &format!("rl.temperature={temperature}")];
        let config = run(&[&LINEAR[..], &settings].concat());
        let rollout = sampled(&mut engine(model(), &config), &config, &training_prompts());
        let (mut after, _) = stepped(model(), &config, &rollout).unwrap();
        after.remove(head);
        (rollout.groups, after)
    };
    for (temperature, divisor) in [("2", 2.0), ("0.5", 0.5)] {
        let (setting, weights) = (learned(temperature, 1.0), learned("1", divisor));
        assert!(setting.0 == weights.0, "temperature {temperature}: other responses or log-probabilities");
        assert!(setting.1 == weights.1, "temperature {temperature}: another step");
        assert!(setting.0 != learned("1", 1.0).0, "the comparison would notice nothing");
    }
}
