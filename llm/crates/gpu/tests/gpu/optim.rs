//! The optimiser on a device against the optimiser on the CPU.

use std::sync::Arc;

use grpo_lambda_decoder::model::ModelConfig;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::optim::{AdamW, AdamWSettings, Decay, StepOutcome};
use grpo_lambda_gpu::{Device, Dtype, GpuAdamW, Gradients, Kernels, Layout, StatePlace, Weights};
use half::bf16;

use crate::decoder::{configs, parameters};
use crate::machine;

/// Both optimisers at the same weights.
struct Pair {
    cpu: AdamW,
    gpu: GpuAdamW,
    weights: Weights,
    gradients: Gradients,
}

impl Pair {
    fn new(device: &Arc<dyn Device>, dtype: Dtype, config: &ModelConfig, settings: &AdamWSettings) -> Pair {
        Pair::placed(StatePlace::Device, device, dtype, config, settings)
    }

    fn placed(
        place: StatePlace,
        device: &Arc<dyn Device>,
        dtype: Dtype,
        config: &ModelConfig,
        settings: &AdamWSettings,
    ) -> Pair {
        let (layout, parameters) = (Arc::new(Layout::new(config)), parameters(config));
        let weights = Weights::upload(device, "weights", &layout, &parameters, dtype).unwrap();
        let gradients = Gradients::weights(device, &layout).unwrap();
        let kernels = Kernels { device: device.clone(), dtype };
        let gpu = GpuAdamW::placed(place, kernels, settings.clone(), weights.tensors(), &parameters).unwrap();
        let cpu = AdamW::new(settings.clone(), parameters.into_iter().map(|(name, t)| (name, t.data)));
        Pair { cpu, gpu, weights, gradients }
    }

    /// One step of each.
    fn step(&mut self, rate: f64, gradient: &Parameters<f32>) -> (StepOutcome, StepOutcome) {
        let by_name: Vec<(&str, &[f32])> = gradient.iter().map(|(n, t)| (n.as_str(), &t.data[..])).collect();
        let cpu = self.cpu.step(rate, &by_name).unwrap();
        self.gradients.tensors().write(gradient).unwrap();
        (cpu, self.gpu.step(rate, &self.gradients, self.weights.tensors()).unwrap())
    }

    fn agree(&self, what: &str) {
        assert_eq!(self.gpu.steps(), self.cpu.steps(), "{what}");
        assert!(self.gpu.to_bytes().unwrap() == self.cpu.to_bytes(), "{what}: the states differ");
        let weights = self.weights.tensors();
        for (name, tensor) in weights.read().unwrap() {
            let round = |x: &f32| match weights.dtype() {
                Dtype::F32 => *x,
                Dtype::Bf16 => bf16::from_f32(*x).to_f32(),
            };
            let expected: Vec<f32> = self.cpu.weights(&name).unwrap().iter().map(round).collect();
            assert_eq!(tensor.data, expected, "{what}: {name}");
        }
    }
}

/// A gradient that differs from step to step.
fn gradient(config: &ModelConfig, step: usize) -> Parameters<f32> {
    let mut gradient = parameters(config);
    for (i, x) in gradient.values_mut().flat_map(|t| &mut t.data).enumerate() {
        *x *= 0.01 * ((i * 13 + step * 29) % 17) as f32 - 0.07;
    }
    gradient
}

#[test]
fn steps_and_states_have_the_cpu_s_bits() {
    for (dtype, shape) in [(Dtype::F32, 3), (Dtype::Bf16, 3), (Dtype::F32, 5)] {
        let (_, config) = configs().remove(shape);
        for (decay, compensated) in [(Decay::Matrices, true), (Decay::All, false)] {
            let device = machine::start();
            let settings = AdamWSettings {
                weight_decay: 0.1,
                decay,
                compensated,
                max_grad_norm: None,
                ..AdamWSettings::default()
            };
            let mut pair = Pair::new(&device, dtype, &config, &settings);
            for step in 0..4 {
                let rate = 1e-3 / (step + 1) as f64;
                pair.step(rate, &gradient(&config, step));
                pair.agree(&format!("{dtype:?}, {decay:?}, step {step}"));
            }
        }
    }
}

/// Steps with clipping, whose norm is the device's in either place; between them a skipped step, and states that change their place.
#[test]
fn a_state_on_the_host_moves_the_weights_to_the_bits_of_one_on_the_device() {
    for (dtype, shape, compensated) in [(Dtype::Bf16, 3, true), (Dtype::F32, 0, false)] {
        let (_, config) = configs().remove(shape);
        let settings = AdamWSettings {
            weight_decay: 0.1,
            max_grad_norm: Some(0.1),
            compensated,
            ..AdamWSettings::default()
        };
        let device = machine::start();
        let [mut here, mut there, mut swapped] = [StatePlace::Device, StatePlace::Host, StatePlace::Host]
            .map(|place| Pair::placed(place, &device, dtype, &config, &settings));
        let elements: usize = there.cpu.parameters().map(|(_, w)| w.len()).sum();
        let bytes = (if compensated { 16 } else { 12 }) * elements as u64;
        assert_eq!((here.gpu.host_bytes(), there.gpu.host_bytes()), (0, bytes));
        assert!(here.gpu.master().is_some() && there.gpu.master().is_none());
        let same = |a: &Pair, b: &Pair, when: &str| {
            assert!(a.gpu.to_bytes().unwrap() == b.gpu.to_bytes().unwrap(), "{when}: the states differ");
            let [a, b] = [a, b].map(|pair| pair.weights.tensors().read().unwrap());
            assert!(a == b, "{when}: the weights differ");
        };
        for step in 0..4 {
            let mut gradient = gradient(&config, step);
            if step == 2 {
                gradient.values_mut().next().unwrap().data[0] = f32::NAN;
            }
            let (_, found) = there.step(1e-2, &gradient);
            assert_eq!(found, here.step(1e-2, &gradient).1);
            assert_eq!(matches!(found, StepOutcome::Skipped { .. }), step == 2);
            same(&there, &here, &format!("{dtype:?}, step {step}"));
            if step == 1 {
                swapped.gpu.restore(&here.gpu.to_bytes().unwrap(), swapped.weights.tensors()).unwrap();
                same(&swapped, &here, "restored");
            }
            if step > 1 {
                swapped.step(1e-2, &gradient);
                same(&swapped, &here, "continued");
            }
        }
        assert!(there.gpu.steps() == 3 && there.gpu.parameters().unwrap() == here.gpu.parameters().unwrap());
        let before = there.gpu.to_bytes().unwrap();
        there.gpu.restore(&before[1..], there.weights.tensors()).unwrap_err();
        assert!(there.gpu.to_bytes().unwrap() == before);
    }
}

#[test]
fn clipping_is_the_cpu_s_up_to_the_last_place_of_the_norm() {
    let (_, config) = configs().remove(0);
    let device = machine::start();
    let settings = AdamWSettings { max_grad_norm: Some(0.1), ..AdamWSettings::default() };
    let mut pair = Pair::new(&device, Dtype::F32, &config, &settings);
    for step in 0..3 {
        let both = pair.step(1e-3, &gradient(&config, step));
        let (StepOutcome::Applied { grad_norm, scale }, StepOutcome::Applied { grad_norm: norm, scale: by }) =
            both
        else {
            panic!("{both:?}")
        };
        assert!(scale < 0.9, "clipping does not bind: {scale}");
        assert!((norm / grad_norm - 1.0).abs() < 1e-14 && (by / scale - 1.0).abs() < 1e-14, "{both:?}");
        for (name, tensor) in pair.gpu.parameters().unwrap() {
            for (a, b) in tensor.data.iter().zip(pair.cpu.weights(&name).unwrap()) {
                assert!((a - b).abs() <= 1e-6 * b.abs().max(1e-3), "{name}: {a} {b}");
            }
        }
    }
}

#[test]
fn a_checkpoint_of_either_continues_on_the_other_to_the_bit() {
    let (_, config) = configs().remove(0);
    let device = machine::start();
    let settings = AdamWSettings { max_grad_norm: None, ..AdamWSettings::default() };
    let fresh = || Pair::new(&device, Dtype::Bf16, &config, &settings);
    let mut unbroken = fresh();
    (0..6).for_each(|step| drop(unbroken.step(1e-3, &gradient(&config, step))));

    let mut first = fresh();
    (0..3).for_each(|step| drop(first.step(1e-3, &gradient(&config, step))));
    let mut second = fresh();
    // Crosswise.
    second.cpu.restore(&first.gpu.to_bytes().unwrap()).unwrap();
    second.gpu.restore(&first.cpu.to_bytes(), second.weights.tensors()).unwrap();
    second.agree("restored");
    (3..6).for_each(|step| drop(second.step(1e-3, &gradient(&config, step))));
    second.agree("continued");
    assert!(second.cpu.to_bytes() == unbroken.cpu.to_bytes());
    assert_eq!(second.gpu.steps(), 6);
}

#[test]
fn a_gradient_that_is_not_finite_skips_the_step_and_is_named_as_on_the_cpu() {
    let (_, config) = configs().remove(0);
    let device = machine::start();
    let mut pair = Pair::new(&device, Dtype::Bf16, &config, &AdamWSettings::default());
    pair.step(1e-3, &gradient(&config, 0));
    for bad in [f32::NAN, f32::NEG_INFINITY] {
        let mut gradient = gradient(&config, 1);
        // Two parameters, not in the order of the layout: the first by name is named.
        gradient.get_mut("model.layers.1.self_attn.k_proj.bias").unwrap().data[1] = bad;
        let first = gradient.get_mut("model.layers.1.mlp.up_proj.weight").unwrap();
        (first.data[0], first.data[5]) = (bad, bad);
        let before = pair.gpu.to_bytes().unwrap();
        let (cpu, gpu) = pair.step(1e-3, &gradient);
        assert_eq!(gpu, cpu);
        let parameter = "model.layers.1.mlp.up_proj.weight".to_owned();
        assert_eq!(gpu, StepOutcome::Skipped { parameter, not_finite: 2 });
        assert!(pair.gpu.to_bytes().unwrap() == before);
        pair.agree("skipped");
    }
}

#[test]
fn states_that_do_not_fit_are_refused_in_the_cpu_s_words_and_change_nothing() {
    let (_, config) = configs().remove(0);
    let device = machine::start();
    let settings = AdamWSettings::default();
    let mut pair = Pair::new(&device, Dtype::F32, &config, &settings);
    pair.step(1e-3, &gradient(&config, 0));
    let wider = ModelConfig { intermediate_size: 48, ..config.clone() };
    let deeper = ModelConfig { num_hidden_layers: 3, ..config.clone() };
    let bytes = |config: &ModelConfig, settings: &AdamWSettings| {
        Pair::new(&device, Dtype::F32, config, settings).gpu.to_bytes().unwrap()
    };
    let plain = AdamWSettings { compensated: false, ..settings.clone() };
    let whole = bytes(&config, &settings);
    let cut = whole[..whole.len() - 3].to_vec();
    for bad in [bytes(&wider, &settings), bytes(&deeper, &settings), bytes(&config, &plain), cut] {
        let refused = pair.gpu.restore(&bad, pair.weights.tensors()).unwrap_err().to_string();
        assert_eq!(refused, pair.cpu.restore(&bad).unwrap_err().to_string());
        pair.agree("refused");
    }
}
