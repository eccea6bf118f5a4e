//! On a device whose sampler and trainer round differently, the first update on a rollout is on-policy all the same.

use std::sync::Arc;

use grpo_lambda_decoder::model::{self, Architecture::Qwen3, ModelShape, weights};
use grpo_lambda_decoder::optim::StepOutcome;
use grpo_lambda_gpu::{Device, Dtype};
use grpo_lambda_grade::Gold;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::plan::synthetic::AlternatingRewards;
use grpo_lambda_trainer::step::engine::{Engine, GpuEngine, TrainingSetup};
use grpo_lambda_trainer::step::{StepContext, StepReport, StepSettings, TrainingPrompt};

use crate::{long, machine};

/// Some steps on random weights, with rewards that differ within every group: what they report, and where the weights end.
fn trained(device: &Arc<dyn Device>, method: &[&str]) -> (Vec<StepReport>, Vec<u32>) {
    // Longer than the 16 keys that a warp takes in decoding: shorter rows are rounded equally by sampler and trainer.
    let base = ["rl.max_new_tokens=28", "memory.micro_batch_tokens=72"];
    let config = Config::resolve("tiny", &[&base[..], method].concat()).unwrap();
    let shape = model::ModelConfig {
        head_dim: 12,
        ..Qwen3.config(ModelShape { vocab: 61, hidden: 16, layers: 2, heads: 2, kv_heads: 1 })
    };
    let parameters = weights::initialise(&shape, 3, 0.3);
    let setup = TrainingSetup::new(config.rl_optimiser());
    let mut engine = GpuEngine::new(device, Dtype::Bf16, &shape, &parameters, setup).unwrap();
    let settings = StepSettings::new(&config, &[]);
    let context = StepContext::new(&settings, config.configured().method.as_ref(), &AlternatingRewards);
    let ids = |n: u32| (0..4 + n).map(|t| (7 * t + n) % 61).collect();
    let prompt = |n: u32| TrainingPrompt::new(ids(n), Gold::from(0), n.into());
    let step = |step: u64| {
        let rollout = context.sample(&mut engine, (0..2).map(prompt).collect(), 4, step).unwrap();
        context.step(&mut engine, &rollout, 1e-2).unwrap()
    };
    let reports = (0..long::of(1, 3)).map(step).collect();
    let parameters = engine.parameters().unwrap();
    let mut names: Vec<&String> = parameters.keys().collect();
    names.sort();
    let bits = names.into_iter().flat_map(|name| &parameters[name].data).map(|x| x.to_bits()).collect();
    (reports, bits)
}

const LAMBDA: [&str; 2] = ["method.name=grpo_lambda", "method.clamp=none"];

#[test]
fn no_ratio_leaves_1_and_nothing_is_clipped_although_the_sampler_rounds_differently() {
    let device = machine::start();
    for method in [&["method.name=grpo"][..], &LAMBDA, &["method.name=grpo_lambda", "method.style=both"]] {
        for report in trained(&device, method).0 {
            let m = &report.metrics;
            assert_eq!((m.ratio_max(), m.trace_ratio_max(), m.ratio_mean()), (1.0, 1.0, 1.0), "{method:?}");
            assert_eq!((m.clip_fraction_low(), m.clip_fraction_high()), (0.0, 0.0), "{method:?}");
            assert!(
                report.mismatch.mean() > 1.0,
                "sampler and trainer rounded equally: {:?}",
                report.mismatch
            );
            assert!(matches!(report.updates[..], [StepOutcome::Applied { .. }]), "{:?}", report.updates);
        }
    }
}

#[test]
fn without_a_trace_grpo_lambda_is_grpo_to_the_bit() {
    let device = machine::start();
    let (_, grpo) = trained(&device, &["method.name=grpo"]);
    assert!(trained(&device, &[&LAMBDA[..], &["method.lambda=0"]].concat()).1 == grpo);
    assert!(trained(&device, &[&LAMBDA[..], &["method.lambda=0.9"]].concat()).1 != grpo);
}

/// Later updates on the same rollout are off-policy by what the first moved, and say so.
#[test]
fn later_updates_are_measured_from_the_first() {
    let device = machine::start();
    let (once, _) = trained(&device, &LAMBDA);
    let (twice, _) = trained(&device, &[&LAMBDA[..], &["rl.inner_updates=2"]].concat());
    assert_eq!(twice[0].mismatch, once[0].mismatch);
    for report in &twice {
        assert_eq!(report.updates.len(), 2);
        assert!(report.metrics.trace_ratio_max() > report.metrics.ratio_max(), "{:?}", report.metrics);
        assert!(report.metrics.ratio_max() > 1.0);
    }
}
