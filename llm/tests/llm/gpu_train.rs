//! A whole run on a device: supervised learning, sampling, the method, the update, checkpoints.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use grpo_lambda_decoder::generate::{Sampler, SamplingParams, SamplingRequest};
use grpo_lambda_decoder::model::{self, Architecture::Qwen3, weights};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_gpu::select::ComputeDevice;
use grpo_lambda_gpu::{Device, Dtype};
use grpo_lambda_ptx::Card;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::step::engine::{Engine, GpuEngine, GpuModel, TrainingSetup};
use grpo_lambda_trainer::train::{Local, RunSummary, train_on};

use crate::common::{
    OWN_SAMPLERS, assert_the_same_to_rounding, checkpoint, column, sized, stopped_after, with, words,
};
use crate::machine;

/// Three supervised steps and two of RL, with a KL term, of a model that the PTX machine can train.
const RUN: &str = "task.kind=addition model.hidden=16 model.layers=1 model.heads=2 model.kv_heads=1 model.intermediate=24 \
                   sft.steps=3 sft.batch=2 sft.warmup=1 rl.steps=2 rl.prompts_per_step=2 rl.group_size=2 rl.max_new_tokens=3 \
                   rl.lr=1e-3 eval.n=1 eval.every=0 method.beta=0.04 checkpoint.every=1";

/// The settings of [`RUN`], but for those that are given.
fn config(more: &[&str]) -> Config {
    Config::resolve("tiny", &with(RUN, more)).unwrap()
}

fn run(device: &Arc<dyn Device>, dtype: Dtype, config: &Config, directory: &Path) -> RunSummary {
    train_on(ComputeDevice::Cuda(device.clone(), dtype), &Local, config, (directory, false), "test").unwrap()
}

fn state(summary: &RunSummary) -> Vec<Vec<u8>> {
    ["model.safetensors", "reference/model.safetensors", "optimiser.state"]
        .iter()
        .map(|file| fs::read(summary.checkpoint.join(file)).unwrap())
        .collect()
}

/// A run in f32 on the device and on the CPU: the same metrics to rounding, of which it gives the gradient's norms.
fn learns_what_the_cpu_learns(device: &Arc<dyn Device>, config: &Config) -> Vec<f64> {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let on_device = run(device, Dtype::F32, config, there.path());
    let on_cpu = train_on(ComputeDevice::Cpu, &Local, config, (here.path(), false), "test").unwrap();
    assert_the_same_to_rounding(there.path(), here.path(), [3, 2]);
    assert_eq!(column(there.path(), "rl", "tokens"), column(here.path(), "rl", "tokens"));
    let error = column(there.path(), "rl", "logp_error_max");
    assert!(error.iter().all(|e| (1.0..1.0 + 1e-4).contains(e)), "{error:?}");
    assert!(column(here.path(), "rl", "logp_error_max").iter().all(|e| *e == 1.0));
    assert_eq!((on_device.n, on_device.parameters), (on_cpu.n, on_cpu.parameters));
    column(here.path(), "rl", "grad_norm")
}

const ADAPTER: [&str; 2] = ["lora.rank=2", "lora.targets=q_proj,down_proj"];

#[test]
fn a_run_on_a_device_learns_what_a_run_on_the_cpu_learns() {
    let device = machine::start();
    let plain = learns_what_the_cpu_learns(&device, &config(&[]));
    learns_what_the_cpu_learns(&device, &config(&ADAPTER));
    // An entropy bonus, of a coefficient that is fixed and of one that adapts.
    for bonus in [&["rl.entropy_coef=0.5"][..], &["rl.entropy_coef=0.5", "rl.entropy_target=100"]] {
        let norms = learns_what_the_cpu_learns(&device, &config(bonus));
        assert!((norms[0] - plain[0]).abs() > 0.01 * plain[0], "{norms:?} of {plain:?}");
    }
}

#[test]
fn trees_and_completions_train_on_a_device_as_on_the_cpu() {
    let device = machine::start();
    for sampler in OWN_SAMPLERS {
        let norms = learns_what_the_cpu_learns(&device, &config(&words(sampler)));
        assert!(norms.iter().all(|norm| *norm > 0.0), "{sampler:?}: {norms:?}");
    }
}

/// Queries and keys normed per head, and heads wider than their share of the hidden state.
#[test]
fn a_qwen3_checkpoint_trains_on_a_device_as_on_the_cpu() {
    let device = machine::start();
    let base = tempfile::tempdir().unwrap();
    let shape = model::ModelConfig { intermediate_size: 24, head_dim: 12, ..Qwen3.config(sized(16, 1)) };
    checkpoint(base.path(), &shape, usize::MAX);
    let from = format!("model.checkpoint={}", base.path().display());
    let settings: Vec<&str> = words(RUN).into_iter().filter(|s| !s.starts_with("model.")).collect();
    for adapter in [&[][..], &ADAPTER] {
        let settings = [&settings[..], adapter, &[from.as_str()]].concat();
        learns_what_the_cpu_learns(&device, &Config::resolve("tiny", &settings).unwrap());
    }
}

#[test]
fn a_run_that_was_stopped_on_a_device_goes_on_to_the_bit_and_on_the_cpu_too() {
    let device = machine::start();
    for (adapter, step) in [(&[][..], 1), (&[], 4), (&["lora.rank=2"], 4)] {
        let config = config(&[adapter, &["checkpoint.keep=9"]].concat());
        let whole = tempfile::tempdir().unwrap();
        let unbroken = run(&device, Dtype::Bf16, &config, whole.path());
        let stopped = stopped_after(step, whole.path());
        let resumed = run(&device, Dtype::Bf16, &config, stopped.path());
        assert!(state(&resumed) == state(&unbroken), "resumed after step {step}");
        // So it does with the optimiser's state in the other memory.
        let stopped = stopped_after(step, whole.path());
        let host = config.with(&["memory.optimiser=host"]).unwrap();
        assert!(state(&run(&device, Dtype::Bf16, &host, stopped.path())) == state(&unbroken), "on the host");
        // The files are those of a run on the CPU.
        let stopped = stopped_after(step, whole.path());
        let elsewhere =
            train_on(ComputeDevice::Cpu, &Local, &config, (stopped.path(), false), "test").unwrap();
        assert_eq!(elsewhere.steps, unbroken.steps);
    }
}

#[test]
fn in_bf16_sampler_and_trainer_differ_by_rounding_and_too_much_of_it_stops_the_run() {
    let device = machine::start();
    let directory = tempfile::tempdir().unwrap();
    // Rows longer than the 16 keys that a warp takes in decoding: shorter ones are rounded equally.
    let long = "rl.max_new_tokens=28";
    run(&device, Dtype::Bf16, &config(&[long]), directory.path());
    let (mean, max) =
        (column(directory.path(), "rl", "logp_error"), column(directory.path(), "rl", "logp_error_max"));
    println!("bf16: mean error {mean:?}, largest {max:?}");
    assert!(mean.iter().zip(&max).all(|(mean, max)| 1.0 < *mean && mean <= max && *mean < 1.05));
    for name in ["ratio_mean", "ratio_max", "trace_ratio_max"] {
        assert_eq!(column(directory.path(), "rl", name), [1.0; 2], "{name}");
    }
    let strict = tempfile::tempdir().unwrap();
    let chosen = ComputeDevice::Cuda(device, Dtype::Bf16);
    let error =
        train_on(chosen, &Local, &config(&["rl.max_logp_error=1", long]), (strict.path(), false), "test")
            .unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with(
            "RL step 0: sampler and trainer give a token probabilities that differ by a factor of 1.0"
        ),
        "{error}"
    );
    assert!(!error.contains('\n') && error.contains("rl.max_logp_error=1 allows less"), "{error}");
}

#[test]
fn a_run_that_will_not_fit_the_card_is_refused_before_it_writes_anything() {
    // What the driver and the libraries hold is not free.
    let memory = (1 << 30) + (364 << 20);
    let (card, _) = machine::card(&Card { memory, ..Card::default() }, Dtype::Bf16);
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let chosen = ComputeDevice::Cuda(card, Dtype::Bf16);
    let error = train_on(chosen, &Local, &config(&[]), (&run, false), "test").unwrap_err();
    assert!(error.refused() && !run.exists(), "{error}");
    let line = error.to_string();
    assert!(line.starts_with("the card has 1.0 GiB free; ") && line.contains("lora.rank=16"), "{line}");
    assert!(!line.contains('\n'), "{line}");
}

/// The policy of a run is its weights in bf16 and its adapter next to them; merged and then rounded it would be another.
#[test]
fn a_card_evaluates_an_adapter_next_to_its_weights_as_the_run_sampled_it() {
    let device = machine::start();
    let directory = tempfile::tempdir().unwrap();
    let config = config(&["lora.rank=2", "rl.steps=0", "sft.steps=12", "sft.lr=1e-2", "checkpoint.every=50"]);
    let last = run(&device, Dtype::Bf16, &config, directory.path()).checkpoint;
    let shape = model::ModelConfig::load(&last).unwrap();
    let address =
        |p: usize, r: usize| Address::new(9, Purpose::Evaluation).prompt(p as u64).response(r as u64);
    let sampling = SamplingParams::new(12, 1.0);
    let prompts: [&[u32]; 2] = [&[5, 6, 7], &[9, 3]];
    let sampled = |model: &dyn Sampler| {
        model.generate(&SamplingRequest::new(&prompts, 3, &[], sampling, &address)).unwrap()
    };
    // The engine that the run would continue with.
    let base = weights::load(&last.join("reference"), &shape).unwrap();
    let setup = TrainingSetup { lora: config.lora.clone(), ..TrainingSetup::new(config.sft_optimiser()) };
    let mut engine = GpuEngine::new(&device, Dtype::Bf16, &shape, &base, setup).unwrap();
    engine.restore_optimiser(&fs::read(last.join("optimiser.state")).unwrap()).unwrap();
    let apart = GpuModel::load(&device, Dtype::Bf16, &shape, &last).unwrap();
    assert!(apart.adapter_bytes() > 0 && sampled(&apart) == sampled(&engine));
    let merged = weights::load(&last, &shape).unwrap();
    let merged = GpuModel::new(&device, Dtype::Bf16, &shape, &merged).unwrap();
    assert!(sampled(&merged) != sampled(&engine), "merged weights round equally");
    // In f32 nothing is lost, and a run without an adapter has none.
    assert_eq!(GpuModel::load(&device, Dtype::F32, &shape, &last).unwrap().adapter_bytes(), 0);
}
