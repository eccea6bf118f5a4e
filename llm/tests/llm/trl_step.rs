//! Whole GRPO steps of TRL, from rewards to weights, repeated by the policy that trains: `fixtures/record_trl.py` recorded them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{self, Configured};
use grpo_lambda_decoder::model::{Decoder, ForwardOptions, Gradients, ModelConfig, Rows, weights};
use grpo_lambda_decoder::optim::StepOutcome;
use grpo_lambda_grade::Gold;
use grpo_lambda_trainer::config::Config as RunConfig;
use grpo_lambda_trainer::step::engine::CpuEngine;
use grpo_lambda_trainer::step::{Rollout, StepContext, TrainingPrompt};
use safetensors::SafeTensors;
use serde::Deserialize;

use crate::common::fixture;
use crate::known_bugs::{engine, with_context};

#[derive(Deserialize)]
struct Recorded {
    /// Folder of a real checkpoint.
    checkpoint: Option<PathBuf>,
    prompts: Vec<Vec<u32>>,
    completions: Vec<Vec<u32>>,
    rewards: Vec<f64>,
    max_completion_length: usize,
    cases: BTreeMap<String, Case>,
}

#[derive(Deserialize)]
struct Case {
    beta: f64,
    temperature: f64,
    epsilon: f64,
    epsilon_high: f64,
    advantages: Vec<f64>,
    logps: Vec<Vec<f64>>,
    entropies: Vec<Vec<f64>>,
    old_logps: Vec<Vec<f64>>,
    ref_logps: Option<Vec<Vec<f64>>>,
    loss: f64,
    grad_norm: f64,
    lr: f64,
    betas: [f64; 2],
    eps: f64,
    weight_decay: [f64; 2],
    change_norm: Option<f64>,
}

fn read(path: &Path) -> Recorded {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn recorded() -> (Recorded, BTreeMap<String, Vec<f32>>) {
    let bytes = crate::recorded::read(&fixture("trl_step.safetensors.gz"));
    let numbers = |data: &[u8]| data.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    let tensors = SafeTensors::deserialize(&bytes).unwrap().tensors();
    let tensors = tensors.into_iter().map(|(name, view)| (name, numbers(view.data()))).collect();
    (read(&fixture("trl_step.json")), tensors)
}

impl Case {
    /// The method of this crate with TRL's settings.
    fn method(&self, name: &str, limit: usize) -> Configured {
        let own = match name {
            "grpo" => "reduction=response_mean",
            "dr_grpo" => &format!("max_length={limit}"),
            _ => "reduction=token_mean",
        };
        let common =
            format!("epsilon_low={} epsilon_high={} beta={}", self.epsilon, self.epsilon_high, self.beta);
        let name = if name == "dr_grpo" { name } else { "grpo" };
        methods::parse(name, &format!("{common} clip=ppo {own}")).unwrap()
    }

    /// TRL's groups, all of one size.
    fn batch(&self, of: &Recorded) -> Vec<Group> {
        let response = |i: usize| Response {
            tokens: of.completions[i].clone(),
            old_logps: self.old_logps[i].clone(),
            ref_logps: self.ref_logps.as_ref().map(|r| r[i].clone()),
            ..Response::graded(self.old_logps[i].clone(), of.rewards[i])
        };
        let size = of.size();
        (0..of.prompts.len())
            .map(|g| Group { responses: (g * size..(g + 1) * size).map(response).collect() })
            .collect()
    }
}

impl Recorded {
    /// Responses to a prompt.
    fn size(&self) -> usize {
        self.completions.len() / self.prompts.len()
    }
}

fn rows(of: &Recorded) -> Rows {
    let mut rows = Rows::new();
    for (i, completion) in of.completions.iter().enumerate() {
        let prompt = &of.prompts[i / of.size()];
        rows.push(&[prompt.as_slice(), completion].concat(), prompt.len());
    }
    rows
}

fn checkpoint(of: &Recorded) -> (ModelConfig, Decoder<f32>) {
    let small = crate::common::llm().join("crates/decoder/tests/fixtures/qwen2_tied");
    let directory = of.checkpoint.as_ref().unwrap_or(&small);
    let config = ModelConfig::load(directory).unwrap();
    let parameters = weights::load(directory, &config).unwrap();
    (config.clone(), Decoder::new(config, parameters).unwrap())
}

#[track_caller]
fn close(what: &str, ours: &[Vec<f64>], theirs: &[Vec<f64>], tolerance: f64) {
    for (a, b) in ours.iter().flatten().zip(theirs.iter().flatten()) {
        assert!((a - b).abs() < tolerance, "{what}: {a} and {b}");
    }
    let lengths = |rows: &[Vec<f64>]| rows.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(ours), lengths(theirs), "{what}");
}

#[test]
fn advantages_log_probs_entropies_loss_and_gradients_are_those_of_trl() {
    let (recorded, tensors) = recorded();
    let (config, model) = checkpoint(&recorded);
    let mut shifted = model.parameters().clone();
    for (name, tensor) in &mut shifted {
        tensor.data.copy_from_slice(&tensors[&format!("ref.{name}")]);
    }
    let reference = Decoder::new(config.clone(), shifted).unwrap();
    for (name, case) in &recorded.cases {
        let options =
            ForwardOptions { temperature: case.temperature, entropy: true, ..ForwardOptions::default() };
        let (scores, tape) = model.forward(&rows(&recorded), options).unwrap();
        close("log-probabilities", &scores.logps, &case.logps, 1e-5);
        close("entropies", &scores.entropies, &case.entropies, 1e-5);
        if let Some(theirs) = &case.ref_logps {
            let ours = reference.score(&rows(&recorded), options).unwrap().logps;
            close("reference", &ours, theirs, 1e-5);
        }
        let configured = case.method(name, recorded.max_completion_length);
        let batch = methods::evaluate(configured.method.as_ref(), &case.batch(&recorded), &scores.logps);
        for (i, &theirs) in case.advantages.iter().enumerate() {
            assert!((batch.advantages[i][0] - theirs).abs() < 1e-6, "{name}: advantage {i}");
        }
        let loss = batch.metrics.policy_loss + batch.metrics.kl_loss;
        assert!((loss - case.loss).abs() < 1e-6, "{name}: loss {loss}, TRL's {}", case.loss);
        let mut gradients = Gradients::new(&config, |_| true);
        model.backward(tape, &batch.dlogps, &mut gradients);
        for (parameter, ours) in gradients.parameters() {
            let theirs = &tensors[&format!("{name}.grad.{parameter}")];
            let ours = crate::recorded::sketch(&ours.data);
            assert_eq!(ours.len(), theirs.len(), "{name}: {parameter}");
            let norm = |x: f64| x.sqrt();
            let squared: f64 = theirs.iter().map(|&b| f64::from(b).powi(2)).sum();
            let apart: f64 = ours.iter().zip(theirs).map(|(a, &b)| (a - f64::from(b)).powi(2)).sum();
            assert!(
                norm(apart) <= 1e-4 * norm(squared) + 1e-9,
                "{name}: gradient of {parameter} differs by {:.2e} of its norm",
                norm(apart / squared)
            );
        }
    }
}

/// The engine after one step of the policy on a recorded case; its gradient's norm is TRL's to this share.
fn stepped(recorded: &Recorded, name: &str, model: Decoder<f32>, tolerance: f64) -> CpuEngine {
    let case = &recorded.cases[name];
    let settings = [
        format!("rl.temperature={}", case.temperature),
        format!("adam.beta1={}", case.betas[0]),
        format!("adam.beta2={}", case.betas[1]),
        format!("adam.epsilon={}", case.eps),
        format!("adam.weight_decay={}", case.weight_decay[0]),
        "rl.grad_clip=1".to_owned(),
        format!("memory.micro_batch_tokens={}", rows(recorded).tokens().len() / 3),
    ];
    // TRL decays matrices only: its second group, biases and norms, has none.
    assert_eq!(case.weight_decay[1], 0.0);
    let run = RunConfig::resolve("tiny", &settings).unwrap();
    let mut engine = engine(model, &run);
    let prompts: Vec<TrainingPrompt> = (0..)
        .zip(&recorded.prompts)
        .map(|(number, prompt)| TrainingPrompt::new(prompt.clone(), Gold::from(0), number))
        .collect();
    let configured = case.method(name, recorded.max_completion_length);
    // TRL's numbers, and so off-policy: they are not this sampler's to the bit.
    let rollout = Rollout { prompts, groups: case.batch(recorded), ..Rollout::default() };
    let report = with_context(&run, |context| {
        let context = StepContext { method: configured.method.as_ref(), ..context };
        context.step(&mut engine, &rollout, case.lr).unwrap()
    });
    let [StepOutcome::Applied { grad_norm, .. }] = &report.updates[..] else {
        panic!("{name}: {:?}", report.updates);
    };
    println!("{name}: gradient norm {grad_norm}, TRL's {}", case.grad_norm);
    assert!((grad_norm / case.grad_norm - 1.0).abs() < tolerance, "{name}: {grad_norm}, {}", case.grad_norm);
    engine
}

/// The step of `record_trl.py MODEL FOLDER`, which `.ci/weekly` records on SmolLM2; TRL_STEP names the folder.
#[test]
fn one_step_on_a_real_checkpoint_is_trls() {
    let Some(folder) = std::env::var_os("TRL_STEP").map(PathBuf::from) else {
        eprintln!("skipped: TRL_STEP is not set; it names the folder of a recorded step");
        return;
    };
    let recorded = read(&folder.join("trl_step.json"));
    let case = &recorded.cases["dapo"];
    let (_, model) = checkpoint(&recorded);
    let options = ForwardOptions { entropy: true, ..ForwardOptions::default() };
    let scores = model.score(&rows(&recorded), options).unwrap();
    close("log-probabilities", &scores.logps, &case.logps, 2e-4);
    close("entropies", &scores.entropies, &case.entropies, 2e-4);
    let before = model.parameters().clone();
    let engine = stepped(&recorded, "dapo", model, 3e-4);
    let squared = |name: &String| {
        let numbers = engine.model.parameters()[name].data.iter().zip(&before[name].data);
        numbers.map(|(after, start)| f64::from(after - start).powi(2)).sum::<f64>()
    };
    let moved = before.keys().map(squared).sum::<f64>().sqrt();
    let theirs = case.change_norm.unwrap();
    println!("the weights move by {moved}, TRL's by {theirs}");
    assert!((moved / theirs - 1.0).abs() < 1e-4, "{moved}, TRL's {theirs}");
}

#[test]
fn one_step_of_the_policy_moves_the_weights_as_trl_does() {
    let (recorded, tensors) = recorded();
    for (name, case) in &recorded.cases {
        let (config, model) = checkpoint(&recorded);
        let before = model.parameters().clone();
        let engine = stepped(&recorded, name, model, 1e-5);
        // The first step of Adam is lr g / (|g| + eps): where the clipped g is not above ten eps, and so the step not above lr 10 / 11, the
        // rounding of g itself (about 1e-9 in either implementation) moves it by more than the tolerance.
        let decided = |change: f32| f64::from(change).abs() > case.lr * 10.0 / 11.0;
        let (mut worst, mut compared, mut all) = (0.0f64, 0, 0);
        for parameter in config.parameter_shapes().into_iter().map(|(n, _)| n) {
            let after = &engine.model.parameters()[&parameter].data;
            let start = &before[&parameter].data;
            let change = &tensors[&format!("{name}.change.{parameter}")];
            all += after.len();
            for i in (0..after.len()).filter(|&i| decided(change[i])) {
                compared += 1;
                worst = worst.max((f64::from(after[i] - start[i]) - f64::from(change[i])).abs());
            }
        }
        println!("{name}: after one step {compared} of {all} weights differ by at most {worst:.1e}");
        assert!(compared * 1000 > all * 995, "{name}: only {compared} of {all} weights are compared");
        assert!(worst < 1e-6, "{name}: a weight moves {worst:.2e} further or less far than TRL's");
    }
}
