//! Several processes are one: bit for bit whatever their number, and none waits for one that is gone.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_lambda_decoder::generate::{Sampler, SamplingParams, SamplingRequest, StoppingCriteria};
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{
    Architecture::Qwen2, Decoder, ForwardOptions, ModelConfig as Shape, ModelShape, Rows,
};
use grpo_lambda_decoder::optim::{AdamW, AdamWSettings, StepOutcome};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_engines::team::threads::{self, Threads};
use grpo_lambda_engines::team::{Link, LinkError, Team, TeamEngine, worker};
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::step::engine::{CpuEngine, Engine, TrainingSetup};
use grpo_lambda_trainer::train::train;

use crate::common::{lasting, words};

const VOCABULARY: u32 = 23;

fn shape() -> Shape {
    Shape {
        intermediate_size: 24,
        tie_word_embeddings: true,
        ..Qwen2.config(ModelShape {
            vocab: VOCABULARY as usize,
            hidden: 16,
            layers: 2,
            heads: 4,
            kv_heads: 2,
        })
    }
}

fn model() -> Decoder<f32> {
    Decoder::new(shape(), weights::initialise(&shape(), 1, 0.3)).unwrap()
}

fn adam() -> AdamWSettings {
    AdamWSettings { weight_decay: 0.01, max_grad_norm: Some(0.5), ..AdamWSettings::default() }
}

fn setup(lora: bool) -> TrainingSetup {
    let mut setup = TrainingSetup::new(adam());
    setup.lora = lora.then(|| LoraSettings {
        rank: 2,
        alpha: 4.0,
        targets: vec!["q_proj".to_owned(), "down_proj".to_owned()],
    });
    setup
}

fn engine(lora: bool) -> CpuEngine {
    CpuEngine::new(model(), setup(lora)).unwrap()
}

fn team_engine(lora: bool, team: &Team, shards: usize) -> TeamEngine<'_> {
    TeamEngine::new(model(), setup(lora), team, shards).unwrap()
}

/// Row `i` of a batch: ragged, and different from every other. Pairs of rows share a prompt.
fn row(i: usize) -> (Vec<u32>, Vec<u32>) {
    let token = |t: usize| ((i * 7 + t * t + 3 * t) % VOCABULARY as usize) as u32;
    let prompt = (0..3).map(|t| (i / 2 * 5 + t) as u32 % VOCABULARY).collect();
    (prompt, (0..2 + i % 4).map(token).collect())
}

fn rows(which: impl IntoIterator<Item = usize>) -> Rows {
    let (mut rows, mut last) = (Rows::new(), None);
    for i in which {
        let (prompt, own) = row(i);
        if last != Some(i / 2) {
            rows.share(&prompt);
        }
        last = Some(i / 2);
        rows.push(&own, 1);
    }
    rows
}

fn slopes(which: impl IntoIterator<Item = usize>) -> Vec<Vec<f64>> {
    which.into_iter().map(|i| vec![0.3 - i as f64 / 7.0; row(i).1.len() - 1]).collect()
}

/// Moves an engine on rows 0..7, in passes that end at these rows.
fn stepped(engine: &mut dyn Engine, ends: &[usize]) -> (StepOutcome, Parameters<f32>) {
    let mut start = 0;
    for &end in ends {
        let (scores, tape) = engine.forward(&rows(start..end), ForwardOptions::default()).unwrap();
        assert_eq!(scores.logps.len(), end - start);
        engine.backward(tape, &slopes(start..end)).unwrap();
        start = end;
    }
    let outcome = engine.step(1e-2).unwrap();
    (outcome, engine.parameters().unwrap().into_owned())
}

/// `T(a, n)` of the module's page, written out.
fn tree(leaves: &[Parameters<f32>]) -> Parameters<f32> {
    if let [leaf] = leaves {
        return leaf.clone();
    }
    let (left, right) = leaves.split_at(leaves.len() / 2);
    let (mut sum, right) = (tree(left), tree(right));
    for (name, tensor) in &mut sum {
        tensor.data.iter_mut().zip(&right[name].data).for_each(|(l, r)| *l += r);
    }
    sum
}

#[test]
fn a_step_moves_against_the_tree_over_the_shards_gradients_whoever_computes_which() {
    let shard = |s: usize| {
        let mut alone = engine(false);
        let which = || (0..7).filter(move |i| i % 4 == s);
        let (_, tape) = alone.forward(&rows(which()), ForwardOptions::default()).unwrap();
        alone.backward(tape, &slopes(which())).unwrap();
        alone.gradients().parameters().clone()
    };
    let sum = tree(&(0..4).map(shard).collect::<Vec<_>>());
    let mut optimiser =
        AdamW::new(adam(), model().parameters().iter().map(|(n, t)| (n.clone(), t.data.clone())));
    let by_name: Vec<(&str, &[f32])> = sum.iter().map(|(n, t)| (n.as_str(), t.data.as_slice())).collect();
    let outcome = optimiser.step(1e-2, &by_name).unwrap();
    for (processes, ends) in [(1, &[7][..]), (2, &[7]), (3, &[7]), (4, &[3, 7]), (3, &[1, 2, 6, 7])] {
        let (told, parameters) =
            threads::run(processes, |team| stepped(&mut team_engine(false, team, 4), ends));
        assert_eq!(told, outcome, "{processes}");
        for (name, tensor) in &parameters {
            assert_eq!(Some(tensor.data.as_slice()), optimiser.weights(name), "{processes} {ends:?} {name}");
        }
    }
    // The shards are part of the result: this batch tells them apart.
    let plain = stepped(&mut engine(false), &[7]);
    assert_ne!(plain.0, outcome);
    assert_eq!(stepped(&mut team_engine(false, &Team::default(), 1), &[7]), plain);
    let adapter = stepped(&mut engine(true), &[7]);
    assert_eq!(stepped(&mut team_engine(true, &Team::default(), 1), &[7]), adapter);
}

/// Both stages, rewards that differ within every group, a reference, several passes to a step, an evaluation in between.
const SMALL: &str = "model.hidden=32 model.layers=2 model.heads=2 model.kv_heads=1 model.intermediate=48 \
                     memory.micro_batch_tokens=64 task.kind=addition sft.steps=2 sft.batch=7 sft.lr=0.02 sft.warmup=0 rl.steps=2 \
                     rl.prompts_per_step=3 rl.group_size=4 rl.inner_updates=2 rl.lr=0.01 rl.warmup=0 rl.max_new_tokens=12 \
                     reward.accuracy=0 reward.coin=1 eval.n=3 eval.every=1 checkpoint.every=1 checkpoint.keep=1000 \
                     method.name=grpo_lambda method.beta=0.04 device=cpu";
const ADAPTER: &[&str] = &["lora.rank=4", "lora.alpha=8"];

#[test]
fn a_test_of_completion_ends_the_responses_of_a_team_where_it_ends_those_of_one() {
    let prompts: [&[u32]; 3] = [&[3, 4, 5], &[7], &[18, 2]];
    let address = |p: usize, r: usize| Address::new(5, Purpose::Rollout).prompt(p as u64).response(r as u64);
    let sampling = SamplingParams { max_new_tokens: 12, min_new_tokens: 0, temperature: 1.0 };
    let complete = |tokens: &[u32]| tokens.iter().filter(|t| **t % 3 == 0).count() == 2;
    let stopping = StoppingCriteria { max_lengths: &[], complete: Some(&complete) };
    let request =
        SamplingRequest { stopping, ..SamplingRequest::new(&prompts, 3, &[1, 2], sampling, &address) };
    let alone = engine(false).generate(&request).unwrap();
    let early = alone.iter().flatten().filter(|r| complete(&r.tokens) && r.tokens.len() < 12);
    assert!(early.clone().count() > 0 && early.clone().all(|r| !r.truncated));
    assert!(alone.iter().flatten().any(|r| r.truncated), "none runs to the limit");
    for size in [2, 3] {
        let together = threads::run(size, |team| team_engine(false, team, 4).generate(&request).unwrap());
        assert_eq!(together, alone);
    }
}

fn config(more: &[&str]) -> Config {
    Config::resolve("tiny", &[&words(SMALL)[..], &["shards=4"], more].concat()).unwrap()
}

/// The log of a run and the files of its last checkpoint, which are the same on every machine.
fn trained(team: &Team, config: &Config) -> Vec<(String, Vec<u8>)> {
    let at = tempfile::tempdir().unwrap();
    train(team, config, at.path(), "test").unwrap();
    lasting(at.path(), &["metrics.jsonl"])
}

#[test]
fn a_run_of_any_number_of_processes_ends_in_the_bytes_of_one() {
    let alone = trained(&Team::default(), &config(&[]));
    for processes in [2, 3, 4] {
        assert!(threads::run(processes, |team| trained(team, &config(&[]))) == alone, "{processes}");
    }
    let adapted = trained(&Team::default(), &config(ADAPTER));
    assert!(adapted.iter().any(|(name, _)| name.contains("adapter")));
    assert!(threads::run(3, |team| trained(team, &config(ADAPTER))) == adapted);
    // Other passes, the same result.
    let larger = config(&[]).with(&["memory.micro_batch_tokens=500"]).unwrap();
    assert!(threads::run(2, |team| trained(team, &larger)) == alone);
}

/// The state that an engine writes.
fn state(engine: &dyn Engine) -> Vec<u8> {
    let mut bytes = Vec::new();
    engine.write_optimiser(&mut bytes).unwrap();
    bytes
}

/// A step, one whose gradient is not finite, and another; what they came to, and the weights and the optimiser's state after each.
fn three_steps(engine: &mut TeamEngine<'_>) -> Vec<(StepOutcome, Parameters<f32>, Vec<u8>)> {
    let step = |bad: bool| {
        let (_, tape) = engine.forward(&rows(0..7), ForwardOptions::default()).unwrap();
        let mut slopes = slopes(0..7);
        if bad {
            slopes[4][0] = f64::NAN;
        }
        engine.backward(tape, &slopes).unwrap();
        let outcome = engine.step(1e-2).unwrap();
        (outcome, engine.parameters().unwrap().into_owned(), state(engine))
    };
    [false, true, false].map(step).into()
}

#[test]
fn steps_and_skipped_steps_are_those_of_one_process_even_where_every_sender_waits_for_its_receiver() {
    for lora in [false, true] {
        let alone = three_steps(&mut team_engine(lora, &Team::default(), 4));
        let [first, skipped, last] = alone.as_slice() else { panic!("three") };
        assert!(matches!(&skipped.0, StepOutcome::Skipped { not_finite, .. } if *not_finite > 0));
        assert!((&first.1, &first.2) == (&skipped.1, &skipped.2) && first.1 != last.1);
        for processes in 2..=4 {
            let together = threads::run_over(Threads::handing(processes), |team| {
                three_steps(&mut team_engine(lora, team, 4))
            });
            assert!(together == alone, "{processes} {lora}");
        }
    }
}

/// As a run is continued: by a new engine that begins with the weights of the checkpoint, or those under its adapter.
#[test]
fn a_state_goes_on_with_any_other_number_of_processes_and_with_the_engine_of_one() {
    for lora in [false, true] {
        let (_, at, saved) = three_steps(&mut team_engine(lora, &Team::default(), 4)).swap_remove(1);
        let mut one = engine(lora);
        one.restore_optimiser(&saved).unwrap();
        assert!(state(&one) == saved && *one.parameters().unwrap() == at, "{lora}");
        let on = |team: &Team| {
            let mut engine = team_engine(lora, team, 4);
            engine.restore_optimiser(&saved).unwrap();
            assert!(state(&engine) == saved && *engine.parameters().unwrap() == at);
            (stepped(&mut engine, &[3, 7]), state(&engine))
        };
        let alone = on(&Team::default());
        for processes in 2..=4 {
            assert!(threads::run(processes, on) == alone, "{processes} {lora}");
        }
        let other =
            threads::run(3, |team| team_engine(!lora, team, 4).restore_optimiser(&saved).unwrap_err());
        assert!(other.to_string().starts_with("optimiser state: "), "{other}");
    }
}

/// A process that dies at the transfer after so many, and counts them.
struct Dying<'c>(Threads, usize, &'c AtomicUsize);

impl Dying<'_> {
    fn live(&self) -> Result<(), LinkError> {
        let alive = self.2.fetch_add(1, Ordering::Relaxed) < self.1;
        if alive { Ok(()) } else { Err(LinkError { rank: self.0.rank(), reason: "died".to_owned() }) }
    }
}

impl Link for Dying<'_> {
    fn rank(&self) -> usize {
        self.0.rank()
    }
    fn size(&self) -> usize {
        self.0.size()
    }
    fn send(&mut self, to: usize, message: &[u8]) -> Result<(), LinkError> {
        self.live()?;
        self.0.send(to, message)
    }
    fn receive(&mut self, from: usize) -> Result<Vec<u8>, LinkError> {
        self.live()?;
        self.0.receive(from)
    }
}

/// Leads a team of three whose last process dies at the transfer after `transfers`. With what it returns, how many there were.
fn with_a_death<T>(transfers: usize, lead: impl FnOnce(&Team) -> T) -> (T, usize) {
    let mut ends = Threads::team(3);
    let (dying, mut good) = (ends.pop().unwrap(), ends.pop().unwrap());
    let leader = Team::new(Box::new(ends.pop().unwrap()));
    let count = AtomicUsize::new(0);
    let result = std::thread::scope(|scope| {
        scope.spawn(move || worker::work(&mut good));
        scope.spawn(|| worker::work(&mut Dying(dying, transfers, &count)));
        let result = lead(&leader);
        drop(leader);
        result
    });
    (result, count.into_inner())
}

/// All that a process is asked in a run: to begin, a pass, a step, its state, to go on from one, another pass.
fn conversation(team: &Team) -> Result<(), String> {
    let text = |e: &dyn std::error::Error| e.to_string();
    let mut engine = TeamEngine::new(model(), setup(false), team, 4).map_err(|e| text(&e))?;
    let pass = |engine: &TeamEngine<'_>| engine.forward(&rows(0..7), ForwardOptions::default());
    let (_, tape) = pass(&engine).map_err(|e| text(&e))?;
    engine.backward(tape, &slopes(0..7)).map_err(|e| text(&e))?;
    engine.step(1e-2).map_err(|e| text(&e))?;
    let mut state = Vec::new();
    engine.write_optimiser(&mut state).map_err(|e| text(&e))?;
    engine.restore_optimiser(&state).map_err(|e| text(&e))?;
    pass(&engine).map(drop).map_err(|e| text(&e))
}

#[test]
fn a_process_that_dies_at_any_transfer_whatever_is_named_and_nobody_is_left_waiting() {
    let (whole, transfers) = with_a_death(usize::MAX, conversation);
    assert_eq!(whole, Ok(()));
    // The last one is the goodbye.
    for lived in 0..transfers - 1 {
        let told = with_a_death(lived, conversation).0.unwrap_err();
        assert!(told.contains("process 2 has ended"), "{lived} of {transfers}: {told}");
    }
}

#[test]
fn a_process_that_dies_ends_the_run_by_name_and_another_number_goes_on_to_the_same_bytes() {
    let alone = trained(&Team::default(), &config(&[]));
    // In the beginning, in supervised learning, in RL.
    for (messages, again) in [(3, 4), (300, 1), (700, 2)] {
        let at = tempfile::tempdir().unwrap();
        let run = |team: &Team| train(team, &config(&[]), at.path(), "test").map(drop);
        let error = with_a_death(messages, run).0.unwrap_err().to_string();
        assert!(error.contains("process 2 has ended"), "{messages}: {error}");
        threads::run(again, |team| train(team, &config(&[]), at.path(), "test")).unwrap();
        assert!(lasting(at.path(), &["metrics.jsonl"]) == alone, "{messages} {again}");
    }
}

/// Weights that are no numbers are met where responses are sampled, by some process or other.
#[test]
fn a_run_that_diverges_says_so_in_the_same_words_whatever_the_number_of_processes() {
    let thrown = config(&[]).with(&["rl.lr=1e30"]).unwrap();
    let error = |team: &Team| {
        let at = tempfile::tempdir().unwrap();
        train(team, &thrown, at.path(), "test").unwrap_err().to_string()
    };
    let alone = error(&Team::default());
    assert!(alone.contains("training has diverged; lower the learning rate (rl.lr = 1e30)"), "{alone}");
    for processes in [2, 3] {
        assert_eq!(threads::run(processes, error), alone, "{processes}");
    }
}

/// A token outside the vocabulary is met by the leader; a reference that no worker got cannot be.
#[test]
fn what_a_model_refuses_is_refused_before_anybody_is_asked() {
    let error = threads::run(2, |team| {
        let engine = team_engine(false, team, 2);
        let mut rows = Rows::new();
        rows.push(&[1, 2], 1);
        rows.push(&[1, VOCABULARY], 1);
        engine.forward(&rows, ForwardOptions::default()).map(drop).unwrap_err().to_string()
    });
    assert!(error.starts_with("row 1: ") && error.contains("outside the vocabulary"), "{error}");
}

#[test]
fn more_processes_than_shards_are_refused_with_the_setting_to_change() {
    let at = tempfile::tempdir().unwrap();
    let run = at.path().join("run");
    let too_few = config(&[]).with(&["shards=2"]).unwrap();
    let error = threads::run(3, |team| train(team, &too_few, &run, "test")).unwrap_err();
    assert!(
        error.refused() && error.to_string().starts_with("shards = 2 with 3 processes: must be"),
        "{error}"
    );
    assert!(!run.exists());
}

#[test]
fn a_build_without_mpi_does_not_train_one_run_several_times() {
    if cfg!(feature = "mpi") {
        return;
    }
    for variable in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "WORLD_SIZE"] {
        let out = Command::new(env!("CARGO_BIN_EXE_llm-train-tested"))
            .arg("train")
            .env(variable, "2")
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(&format!("{variable}=2: this process was started as one of 2")), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}
