//! The engine against the CPU's in single precision: scores, ten steps, adapters, references.

use candle_core::{DType, Device};
use grpo_lambda_candle::CandleEngine;
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{Decoder, ForwardOptions, ModelConfig, Rows};
use grpo_lambda_decoder::optim::{AdamWSettings, StepOutcome};
use grpo_lambda_trainer::step::engine::{CpuEngine, Engine, TrainingSetup};

use crate::cases::{TEMPERATURE, configs, parameters, rows, slopes};

fn single(config: &ModelConfig) -> Parameters<f32> {
    weights::cast(&parameters(config))
}

fn setup() -> TrainingSetup {
    TrainingSetup::new(AdamWSettings { weight_decay: 0.1, ..AdamWSettings::default() })
}

/// An adapter of the queries and of the MLP's output.
fn adapted() -> TrainingSetup {
    let targets = vec!["q_proj".to_owned(), "down_proj".to_owned()];
    TrainingSetup { lora: Some(LoraSettings { rank: 2, alpha: 6.0, targets }), seed: 3, ..setup() }
}

fn cpu(config: &ModelConfig, setup: TrainingSetup) -> CpuEngine {
    CpuEngine::new(Decoder::new(config.clone(), single(config)).unwrap(), setup).unwrap()
}

fn candle(config: &ModelConfig, setup: TrainingSetup) -> CandleEngine {
    CandleEngine::new(&Device::Cpu, DType::F32, config, &single(config), setup).unwrap()
}

/// Rows that continue a prefix next to those that do not.
fn batch() -> Rows {
    let mut rows = rows();
    rows.share(&[7, 8, 9]);
    rows.push(&[3, 4, 5], 1);
    rows.push(&[10, 2], 1);
    rows
}

/// The furthest of the log-probabilities of a batch, before a step that raises some of them and lowers others.
fn step(engines: [&mut dyn Engine; 2]) -> f64 {
    let mut found = Vec::new();
    for engine in engines {
        // Two micro-batches.
        for rows in [batch(), rows()] {
            let (scores, tape) = engine.forward(&rows, TEMPERATURE).unwrap();
            engine.backward(tape, (&slopes(&scores.logps)).into()).unwrap();
            found.push(scores.logps.concat());
        }
        let outcome = engine.step(1e-3).unwrap();
        assert!(
            matches!(outcome, StepOutcome::Applied { grad_norm, scale } if grad_norm > 1.0 && scale < 1.0)
        );
    }
    let (ours, theirs) = found.split_at(2);
    distance(ours.concat().into_iter(), theirs.concat().into_iter())
}

fn distance(a: impl ExactSizeIterator<Item = f64>, b: impl ExactSizeIterator<Item = f64>) -> f64 {
    assert_eq!(a.len(), b.len());
    a.zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

fn apart(a: &Parameters<f32>, b: &Parameters<f32>) -> f64 {
    assert!(a.keys().eq(b.keys()));
    let of = |t: &weights::Tensor<f32>| t.data.clone().into_iter().map(f64::from);
    a.iter().map(|(name, t)| distance(of(t), of(&b[name]))).fold(0.0, f64::max)
}

#[test]
fn scores_and_the_weights_of_ten_steps_are_the_cpu_s_with_an_adapter_or_without() {
    for config in configs() {
        for setup in [setup, adapted] {
            let (mut ours, mut theirs) = (candle(&config, setup()), cpu(&config, setup()));
            let start = theirs.parameters().unwrap().into_owned();
            let furthest = (0..10).map(|_| step([&mut ours, &mut theirs])).fold(0.0, f64::max);
            let (a, b) = (ours.parameters().unwrap(), theirs.parameters().unwrap());
            let (weights, moved) = (apart(&a, &b), apart(&start, &b));
            println!(
                "{:?}: log p {furthest:.1e}, weights {weights:.1e} after moving {moved:.1e}",
                config.architecture
            );
            assert!(furthest < 1e-5, "{:?}: log-probabilities differ by {furthest:e}", config.architecture);
            assert!(weights < 1e-4 && moved > 5e-3, "{:?}: {weights:e} of {moved:e}", config.architecture);
            assert_eq!((ours.steps(), ours.exact(), ours.shape()), (10, false, &config));
        }
    }
}

#[test]
fn the_reference_is_the_frozen_model_or_the_one_without_its_adapter() {
    let config = &configs()[4];
    let other = weights::initialise(config, 8, 0.4);
    let options = ForwardOptions { entropy: true, ..TEMPERATURE };
    for setup in [|p| TrainingSetup { reference: Some(p), ..setup() }, |_| adapted()] {
        let (mut ours, mut theirs) =
            (candle(config, setup(other.clone())), cpu(config, setup(other.clone())));
        step([&mut ours, &mut theirs]);
        let score = |engine: &mut dyn Engine| {
            engine
                .score_reference(&[batch(), rows()], options)
                .unwrap()
                .into_iter()
                .flat_map(|s| [s.logps, s.entropies])
        };
        for (a, b) in score(&mut ours).zip(score(&mut theirs)) {
            assert!(distance(a.concat().into_iter(), b.concat().into_iter()) < 1e-5);
        }
        let frozen = |engine: &dyn Engine| engine.frozen_weights().unwrap().unwrap().into_owned();
        assert!(frozen(&ours) == frozen(&theirs));
        assert_eq!(ours.adapter().unwrap().map(|a| a.0), theirs.adapter().unwrap().map(|a| a.0));
    }
    assert!(candle(config, setup()).frozen_weights().unwrap().is_none());
}

#[test]
fn a_gradient_that_is_not_finite_is_skipped_and_rows_and_states_that_do_not_fit_are_refused() {
    let config = &configs()[1];
    let mut engine = candle(config, setup());
    let start = engine.parameters().unwrap().into_owned();
    let (scores, tape) = engine.forward(&rows(), TEMPERATURE).unwrap();
    let mut wrong = slopes(&scores.logps);
    wrong[0][0] = f64::NAN;
    engine.backward(tape, (&wrong).into()).unwrap();
    assert!(matches!(engine.step(1e-3).unwrap(), StepOutcome::Skipped { .. }));
    assert!(engine.parameters().unwrap().as_ref() == &start && engine.steps() == 0);
    let refused = engine.restore_optimiser(&[0; 100]).unwrap_err();
    assert!(refused.to_string().starts_with("optimiser state: "), "{refused}");
    // A step without a backward pass is one of a gradient of zeros.
    assert!(matches!(engine.step(1e-3).unwrap(), StepOutcome::Applied { grad_norm: 0.0, .. }));
    let mut outside = Rows::new();
    outside.push(&[1, 11], 1);
    assert!(
        engine
            .forward(&outside, TEMPERATURE)
            .unwrap_err()
            .to_string()
            .contains("outside the vocabulary of 11")
    );
}

#[test]
fn in_bf16_scores_and_gradients_are_near_and_small_steps_are_not_lost() {
    for config in configs() {
        let mut theirs = cpu(&config, setup());
        let mut ours =
            CandleEngine::new(&Device::Cpu, DType::BF16, &config, &single(&config), setup()).unwrap();
        let mut norms = Vec::new();
        let mut scored = Vec::new();
        for engine in [&mut ours as &mut dyn Engine, &mut theirs] {
            let (scores, tape) = engine.forward(&batch(), TEMPERATURE).unwrap();
            engine.backward(tape, (&slopes(&scores.logps)).into()).unwrap();
            scored.push(scores.logps.concat());
            // Far less than half a unit in the last place of bf16.
            let StepOutcome::Applied { grad_norm, .. } = engine.step(1e-6).unwrap() else {
                panic!("skipped")
            };
            norms.push(grad_norm);
        }
        let furthest = distance(scored[0].clone().into_iter(), scored[1].clone().into_iter());
        let off = |(a, b): (&f64, &f64)| (a - b).abs();
        let mean = scored[0].iter().zip(&scored[1]).map(off).sum::<f64>() / scored[0].len() as f64;
        println!("{:?}: log p {mean:.3}, at most {furthest:.3}, norms {norms:?}", config.architecture);
        assert!(mean < 0.05 && furthest < 0.25 && (norms[0] / norms[1] - 1.0).abs() < 0.05);
        let moved = apart(&ours.parameters().unwrap(), &single(&config));
        assert!(moved > 5e-7 && moved < 2e-6, "{moved:e}");
    }
}
