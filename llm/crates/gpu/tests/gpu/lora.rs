//! Adapters on a device against adapters on the CPU, where they are merged into the weights.

use std::sync::Arc;

use grpo_lambda_decoder::lora::{Lora, LoraSettings, TARGETS};
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{self, Decoder, ForwardOptions, ModelConfig, Rows, TokenScores};
use grpo_lambda_decoder::optim::{AdamW, AdamWSettings};
use grpo_lambda_gpu::{Budget, Device, Dtype, GpuAdamW, Kernels};

use grpo_lambda_ptx::Order;

use crate::decoder::{OPTIONS, Ready, apart, configs, largest, parameters, relative, rows, slopes};
use crate::machine;

fn settings(targets: &[&str]) -> LoraSettings {
    LoraSettings { rank: 3, alpha: 4.5, targets: targets.iter().map(|t| (*t).to_owned()).collect() }
}

fn every() -> LoraSettings {
    settings(&TARGETS.map(|(name, _)| name))
}

/// Adapters of all projections, of a part of them, and of one.
fn choices() -> [LoraSettings; 3] {
    [every(), settings(&["v_proj", "q_proj", "up_proj"]), settings(&["down_proj"])]
}

/// An adapter with `B` not zero.
fn grown(settings: &LoraSettings, config: &ModelConfig) -> Parameters<f32> {
    let mut adapter = settings.initialise(config, 5).unwrap();
    for (i, x) in adapter.values_mut().flat_map(|t| &mut t.data).enumerate() {
        *x += 0.04 * ((i * 37 % 11) as f32 - 5.0) / 5.0;
    }
    adapter
}

/// A decoder with its weights and this adapter on a device.
fn adapted(
    device: Arc<dyn Device>,
    dtype: Dtype,
    config: &ModelConfig,
    settings: &LoraSettings,
    adapter: &Parameters<f32>,
) -> Ready {
    // The logits of one token at a time, where other tests have three, and the check has all.
    let one = Budget { logits: 0 };
    Ready::with(device, dtype, config, &parameters(config), one, Some((settings, adapter)))
}

fn look<'a>(adapter: &'a Parameters<f32>) -> impl Fn(&str) -> Option<&'a [f32]> + Sync + 'a {
    |name| adapter.get(name).map(|t| t.data.as_slice())
}

fn on_the_cpu(
    config: &ModelConfig,
    settings: &LoraSettings,
    adapter: &Parameters<f32>,
    rows: &Rows,
    slopes: &[Vec<f64>],
) -> (TokenScores, Parameters<f32>) {
    let mut decoder = Decoder::new(config.clone(), parameters(config)).unwrap();
    let lora = Lora::new(settings.clone(), &decoder).unwrap();
    lora.merge(&mut decoder, &look(adapter));
    let (scores, tape) = decoder.forward(rows, OPTIONS).unwrap();
    let mut dense = model::Gradients::new(config, |name| lora.adapts(name));
    decoder.backward(tape, slopes, &mut dense);
    (scores, lora.gradients(&mut dense, &look(adapter)))
}

#[test]
fn scores_and_gradients_of_an_adapter_are_those_of_the_merged_weights_up_to_rounding() {
    for (i, (name, config)) in configs().into_iter().enumerate() {
        for (dtype, most) in [(Dtype::F32, 1e-5), (Dtype::Bf16, 0.1)] {
            let chosen = if i == 0 && dtype == Dtype::F32 { 3 } else { 1 };
            for settings in choices().into_iter().take(chosen) {
                let (adapter, rows) = (grown(&settings, &config), rows());
                let (expected, gradients) = on_the_cpu(&config, &settings, &adapter, &rows, &slopes(&rows));
                let adapted = adapted(machine::start(), dtype, &config, &settings, &adapter);
                let scores = adapted.run(&rows, &slopes(&rows), OPTIONS);
                let differences = relative(&adapted.read(), &gradients);
                let (logp, worst) = (apart(&scores.logps, &expected.logps), largest(&differences));
                println!("{name}, {:?}: log-probability {logp:.1e}, gradient {worst:?}", settings.targets);
                assert!(logp < most && worst.1 < most, "{name}, {settings:?}: {logp} {worst:?}");
            }
        }
    }
}

#[test]
fn a_fresh_adapter_and_none_at_all_score_as_the_frozen_weights_do() {
    let (_, config) = configs().remove(0);
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let device = machine::start();
        let settings = every();
        let score = |adapter: &Parameters<f32>| {
            let adapted = adapted(device.clone(), dtype, &config, &settings, adapter);
            let on = adapted.decoder.score(adapted.network(), &rows(), OPTIONS).unwrap();
            (on, adapted.decoder.score(&adapted.weights, &rows(), OPTIONS).unwrap())
        };
        let (fresh, base) = score(&settings.initialise(&config, 5).unwrap());
        assert_eq!(fresh, base);
        let (on, off) = score(&grown(&settings, &config));
        assert_eq!(off, base);
        assert!(apart(&on.logps, &off.logps) > 0.01);
    }
}

#[test]
fn recomputation_and_the_order_of_threads_change_no_bit_of_an_adapter_s_step() {
    for shape in [3, 5] {
        let (_, config) = configs().remove(shape);
        let run = |order: Order, recompute: bool| {
            let adapted =
                adapted(machine::ordered(order), Dtype::Bf16, &config, &every(), &grown(&every(), &config));
            (adapted.run(&rows(), &slopes(&rows()), ForwardOptions { recompute, ..OPTIONS }), adapted.read())
        };
        let first = run(Order::Forward, false);
        assert!(run(Order::Forward, true) == first);
        assert!(run(Order::Shuffled(3), false) == first);
    }
}

#[test]
fn a_step_of_an_adapter_leaves_its_base_to_the_bit_and_needs_no_second_copy() {
    let (_, config) = configs().remove(0);
    let (device, settings) = (machine::start(), every());
    let adapter = settings.initialise(&config, 5).unwrap();
    let adapted = adapted(device.clone(), Dtype::F32, &config, &settings, &adapter);
    let thin = adapted.adapter.as_ref().unwrap();
    let kernels = Kernels { device: device.clone(), dtype: Dtype::F32 };
    let mut gpu = GpuAdamW::new(kernels, AdamWSettings::default(), thin.tensors(), &adapter).unwrap();
    let before = adapted.weights.tensors().read().unwrap();
    let run = || adapted.run(&rows(), &slopes(&rows()), OPTIONS);
    let start = run();
    gpu.step(1e-2, &adapted.gradients, thin.tensors()).unwrap();
    assert!(apart(&run().logps, &start.logps) > 1e-3, "nothing moved");
    assert!(adapted.weights.tensors().read().unwrap() == before);
    let arrays = adapter.iter().map(|(n, t)| (n.clone(), t.data.clone()));
    let mut cpu = AdamW::new(AdamWSettings::default(), arrays);
    assert!(cpu.restore(&gpu.to_bytes().unwrap()).is_ok(), "an adapter's state interchanges too");
    // The reference costs no second copy, and nothing frozen has a gradient.
    let (_, uses) = device.ledger().peak();
    let numbers: usize = adapter.values().map(|t| t.data.len()).sum();
    assert!(!uses.contains_key("reference"));
    assert!(uses["gradients"] < 4 * (numbers + 64 * adapter.len()) as u64, "{uses:?}");
}
