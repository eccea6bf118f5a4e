//! Adapters in training: what moves and what does not, resumption, the reference, refusals, merging.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use grpo_lambda::learner::Policy;
use grpo_lambda_decoder::lora;
use grpo_lambda_decoder::model::weights::{self, Parameters};
use grpo_lambda_decoder::model::{Architecture::Qwen3, Decoder, ForwardOptions, ModelConfig, Rows};
use grpo_lambda_trainer::config::Config as RunConfig;
use grpo_lambda_trainer::input::task::{Split, Task};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::step::engine::{CpuEngine, Engine, TrainingSetup};
use grpo_lambda_trainer::step::{LlmPolicy, TrainingPrompt};

use crate::common::{Done, Place, column, copy, lasting, llm_train, shape, sized, words};
use crate::known_bugs::with_context;
use crate::long;

/// A run small enough to be repeated. What it earns is for being short: rewards differ although nothing is learned of the task.
const SMALL: &str = "model.hidden=32 model.layers=2 model.heads=2 model.kv_heads=1 model.intermediate=48 lora.rank=4 \
                     lora.alpha=8 lora.targets=q_proj,v_proj,o_proj,down_proj task.kind=addition sft.batch=8 sft.lr=0.02 \
                     sft.warmup=0 rl.prompts_per_step=3 rl.group_size=4 rl.lr=0.01 rl.warmup=0 rl.max_new_tokens=48 \
                     reward.accuracy=0 reward.overlong=1 reward.overlong_cache=47 eval.n=2 eval.every=0 checkpoint.every=1 \
                     checkpoint.keep=1000 method.name=grpo_lambda method.beta=0.04";
const ADAPTED: [&str; 4] = ["q_proj", "v_proj", "o_proj", "down_proj"];

fn train(directory: &Path, settings: &[&str]) -> Done {
    let all = [&["train", "--run", directory.to_str().unwrap()][..], &words(SMALL), settings].concat();
    llm_train(&all, "")
}

fn step(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("checkpoints/step-{number:08}"))
}

fn read(directory: &Path) -> (ModelConfig, Parameters<f32>) {
    let config = ModelConfig::load(directory).unwrap();
    let parameters = weights::load(directory, &config).unwrap();
    (config, parameters)
}

fn adapted(name: &str) -> bool {
    ADAPTED.iter().any(|target| name.ends_with(&format!(".{target}.weight")))
}

fn b_is_zero(adapter: &Parameters<f32>) -> bool {
    let mut b = adapter.iter().filter(|(name, _)| name.contains("lora_B"));
    b.all(|(_, tensor)| tensor.data.iter().all(|x| *x == 0.0))
}

/// B29: an adapter that never reaches the sampler, or one that a resumed run counts twice. Whatever a checkpoint samples from is base plus adapter, once.
#[track_caller]
fn is_base_plus_adapter(checkpoint: &Path) -> Parameters<f32> {
    let (config, model) = read(checkpoint);
    let (_, mut base) = read(&checkpoint.join("reference"));
    for (name, tensor) in &base {
        assert!(adapted(name) || *tensor == model[name], "{}: {name} moved", checkpoint.display());
    }
    let (settings, adapter) = lora::load(&checkpoint.join("adapter"), &config).unwrap();
    lora::merge(&settings, &adapter, &config, &mut base).unwrap();
    assert!(base == model, "{}: the weights are not base plus adapter", checkpoint.display());
    adapter
}

#[test]
fn a_run_trains_its_adapter_alone_learns_and_begins_rl_at_its_reference() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let config = RunConfig::resolve("tiny", &words(SMALL)).unwrap();
    train(at, &["sft.steps=25", "rl.steps=4"]).output();

    let (shape, first) = read(&step(at, 1).join("reference"));
    assert!(first == weights::initialise(&shape, config.seed, 0.02), "the base is not the run's first model");
    for k in 1..25 {
        assert!(read(&step(at, k).join("reference")).1 == first, "the base moved by step {k}");
        assert!(!b_is_zero(&is_base_plus_adapter(&step(at, k))));
    }
    // The two stages have an adapter each: what the first found is the second's base, and B = 0 leaves it to the bit.
    let (_, start) = read(&step(at, 25));
    assert!(b_is_zero(&is_base_plus_adapter(&step(at, 25))));
    assert!(read(&step(at, 25).join("reference")).1 == start && start != first);
    let mut last = start.clone();
    for k in 26..=29 {
        assert!(read(&step(at, k).join("reference")).1 == start, "the reference moved by step {k}");
        assert!(!b_is_zero(&is_base_plus_adapter(&step(at, k))));
        let (_, now) = read(&step(at, k));
        for (name, tensor) in &now {
            assert_eq!(*tensor != last[name], adapted(name), "{name} in step {k}");
        }
        last = now;
    }
    let loss = column(at, "sft", "loss");
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    // The frozen head is new and small: its logits stay within 0.02 x 32 = 0.64 of 0, so there is little to win.
    assert!(mean(&loss[22..]) < mean(&loss[..2]) - 0.2, "{loss:?}");
    let kl = column(at, "rl", "kl");
    assert!(kl[0] == 0.0 && kl[1..].iter().all(|x| *x > 0.0), "{kl:?}");
    let said = |number: u64| {
        let text = std::fs::read_to_string(step(at, number).join("adapter").join(lora::CONFIG_FILE)).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["base_model_name_or_path"].clone()
    };
    assert_eq!((said(3), said(27)), ("../reference".into(), "../reference".into()));
}

#[test]
fn a_run_resumed_at_any_checkpoint_of_either_stage_ends_in_the_same_bytes() {
    let settings = ["sft.steps=4", "rl.steps=3", "rl.inner_updates=2"];
    let whole = tempfile::tempdir().unwrap();
    train(whole.path(), &settings).output();
    let expected: BTreeMap<String, Vec<u8>> = lasting(whole.path(), &["metrics.jsonl"]).into_iter().collect();
    for name in ["model.safetensors", "optimiser.state", "adapter/adapter_model.safetensors"] {
        assert!(expected.contains_key(name), "{:?}", expected.keys());
    }
    assert!(column(whole.path(), "rl", "grad_norm").iter().all(|x| *x > 0.0), "nothing was learned in RL");
    // The first of supervised learning, its last, and one of RL; or all.
    for &last in long::of(&[1, 4, 6][..], &[1, 2, 3, 4, 5, 6]) {
        let broken = tempfile::tempdir().unwrap();
        copy(whole.path(), broken.path());
        for later in last + 1..=7 {
            std::fs::remove_dir_all(step(broken.path(), later)).unwrap();
        }
        let done = train(broken.path(), &settings);
        done.output();
        done.tells(&format!("continuing from step {last}"));
        for (name, bytes) in lasting(broken.path(), &["metrics.jsonl"]) {
            assert!(expected[&name] == bytes, "{name} differs after a resumption at {last}");
        }
        is_base_plus_adapter(&step(broken.path(), 7));
    }
    // Neither how the work is cut nor who does it changes a bit.
    let other = tempfile::tempdir().unwrap();
    let ways = ["memory.micro_batch_tokens=50", "memory.recompute_layers=true", "threads=1"];
    train(other.path(), &[&settings[..], &ways].concat()).output();
    for (name, bytes) in lasting(other.path(), &[]) {
        assert!(expected[&name] == bytes, "{name} differs with other micro-batches and threads");
    }
}

#[test]
fn without_rl_the_adapter_of_supervised_learning_is_delivered() {
    let dir = tempfile::tempdir().unwrap();
    train(dir.path(), &["sft.steps=3", "rl.steps=0"]).output();
    let last = step(dir.path(), 3);
    assert!(!b_is_zero(&is_base_plus_adapter(&last)), "what was trained is not in the checkpoint");
    assert!(read(&last.join("reference")).1 == read(&step(dir.path(), 1).join("reference")).1);
    let before = lasting(dir.path(), &[]);
    // Killed after its last checkpoint and before its summary.
    std::fs::remove_file(dir.path().join("summary.json")).unwrap();
    train(dir.path(), &["sft.steps=3", "rl.steps=0"]).output();
    assert!(lasting(dir.path(), &[]) == before);
}

/// An engine with an adapter over random weights, and problems.
fn engine(settings: &[&str]) -> (CpuEngine, Vec<TrainingPrompt>, RunConfig, Decoder<f32>) {
    let config = RunConfig::resolve("tiny", &[&words(SMALL), settings].concat()).unwrap();
    let shape = shape();
    let base = Decoder::new(shape.clone(), weights::initialise(&shape, 3, 0.3)).unwrap();
    let copy = Decoder::new(shape, base.parameters().clone()).unwrap();
    let setup = TrainingSetup { lora: config.lora.clone(), ..TrainingSetup::new(config.rl_optimiser()) };
    let engine = CpuEngine::new(copy, setup).unwrap();
    let problem = |i| {
        let problem = Task::Addition.problem(0, Split::Train, i);
        let prompt = ModelTokenizer::tiny().prompt(&problem.prompt).unwrap().ids().to_vec();
        let text = Some(problem.text().to_owned());
        TrainingPrompt { problem: text, ..TrainingPrompt::new(prompt, problem.gold, i) }
    };
    (engine, (0..3).map(problem).collect(), config, base)
}

#[test]
fn the_reference_is_the_base_to_the_bit_however_far_the_adapter_went() {
    let (mut engine, prompts, config, base) = engine(&["rl.inner_updates=2"]);
    with_context(&config, |context| {
        for round in 0..3 {
            let mut rollout = context.sample(&mut engine, prompts.clone(), 4, round).unwrap();
            let mut off: f64 = 0.0;
            for (group, prompt) in rollout.groups.iter_mut().zip(&prompts) {
                for (i, response) in group.responses.iter_mut().enumerate() {
                    let mut row = Rows::new();
                    row.push(&[&prompt.tokens[..], &response.tokens].concat(), prompt.tokens.len());
                    let alone = base.score(&row, ForwardOptions::default()).unwrap().logps.remove(0);
                    assert_eq!(response.ref_logps.as_ref(), Some(&alone), "round {round}");
                    let gaps = alone.iter().zip(&response.old_logps).map(|(a, b)| (a - b).abs());
                    off = gaps.fold(off, f64::max);
                    response.reward = Some(i as f64);
                }
            }
            assert!(if round == 0 { off == 0.0 } else { off > 1e-3 }, "{off} in round {round}");
            assert_eq!(context.step(&mut engine, &rollout, 0.05).unwrap().updates.len(), 2);
        }
    });
}

/// B35: dropout in scoring gives every pass another policy. There is none, and no setting for it.
#[test]
fn there_is_no_dropout_so_scoring_again_gives_the_same_bits_and_those_of_the_sampler() {
    let (mut engine, prompts, config, _) = engine(&["rl.inner_updates=1"]);
    with_context(&config, |context| {
        for round in 0..2 {
            let mut rollout = context.sample(&mut engine, prompts.clone(), 4, round).unwrap();
            let batch = &rollout.groups;
            let old: Vec<Vec<f64>> =
                batch.iter().flat_map(|g| &g.responses).map(|r| r.old_logps.clone()).collect();
            let policy = LlmPolicy::new(&mut engine, context, &rollout, 0.0);
            for _ in 0..2 {
                let again = policy.log_probs(&prompts, batch, 0..old.len()).unwrap().0;
                assert_eq!(again, old, "round {round}");
            }
            for (i, response) in rollout.groups.iter_mut().flat_map(|g| &mut g.responses).enumerate() {
                response.reward = Some((i % 4) as f64);
            }
            context.step(&mut engine, &rollout, 0.05).unwrap();
        }
    });
    let (_, adapter) = engine.adapter().unwrap().unwrap();
    assert!(!b_is_zero(&adapter), "the adapter stood still, so this tests nothing");
    let dir = tempfile::tempdir().unwrap();
    train(&dir.path().join("run"), &["lora.dropout=0.1"]).refused(2, "unknown key `lora.dropout`");
}

#[test]
fn merging_a_runs_adapter_into_its_base_gives_its_weights_byte_for_byte() {
    let place = Place::new();
    train(&place.at("run"), &["sft.steps=2", "rl.steps=2"]).output();
    let last = "run/checkpoints/step-00000004";
    let (base, adapter) = (&format!("{last}/reference")[..], &format!("{last}/adapter")[..]);
    let merge = |base: &str, adapter: &str, out: &str| {
        place.run(&format!("export --model {base} --adapter {adapter} --out {out}"))
    };
    merge(base, adapter, "merged").says("rank 4, alpha 8, down_proj, o_proj, q_proj, v_proj");
    for name in ["model.safetensors", "config.json", "tokenizer.json"] {
        let [merged, last] = ["merged", last].map(|at| std::fs::read(place.at(at).join(name)).unwrap());
        assert!(merged == last, "{name}");
    }
    let score = |at: &str| {
        place.run_with(&format!("score --model {at}"), &[], "{\"ids\": [5, 6, 7]}").output().to_owned()
    };
    assert_eq!(score("merged"), score(last));
    assert_ne!(score("merged"), score(base));
    merge(base, adapter, "half --dtype bf16").output();
    assert_eq!(ModelConfig::load(&place.at("half")).unwrap().dtype, "bfloat16");
    for (name, tensor) in read(&place.at("half")).1 {
        let exact = &read(&place.at("merged")).1[&name].data;
        let near = tensor.data.iter().zip(exact).all(|(a, b)| (a - b).abs() <= b.abs() / 256.0);
        assert!(near, "{name}");
    }

    // Another base of the same shapes is refused by its checksum; an adapter that says none is merged with a line.
    let shape_of_last = ModelConfig::load(&place.at(last)).unwrap();
    crate::common::checkpoint(&place.at("other"), &shape_of_last, usize::MAX);
    merge("other", adapter, "new").refused(
        2,
        "other: not the weights that … was trained on (checksum … CHECKPOINT/reference … --any-base",
    );
    assert!(!place.at("new").exists());
    merge("other", adapter, "forced --any-base").output();
    std::fs::create_dir(place.at("bare")).unwrap();
    for file in [lora::CONFIG_FILE, lora::WEIGHTS_FILE] {
        std::fs::copy(place.at(adapter).join(file), place.at("bare").join(file)).unwrap();
    }
    let unchecked = merge("other", "bare", "unchecked");
    unchecked.output();
    unchecked.tells("no base.json, so whether it was trained on");
    let shallow = ModelConfig { num_hidden_layers: 1, ..shape() };
    crate::common::checkpoint(&place.at("elsewhere"), &shallow, usize::MAX);
    for (base, adapter, out, expected) in [
        (last, adapter, "new", "already merged into the weights of … its base is … reference"),
        (base, base, "new", "--adapter … adapter_config.json: No such file; name the directory"),
        (base, adapter, "merged", "--out merged: holds  … must be empty or new"),
        (base, adapter, &format!("{last}/config.json"), "a file; must be a directory"),
        ("elsewhere", adapter, "new", "adapter_model.safetensors … model.layers.0."),
        ("none", adapter, "new", "none: no such directory"),
        (adapter, adapter, "new", "config.json"),
    ] {
        merge(base, adapter, out).refused(2, expected);
        assert!(!place.at("new").exists());
    }
}

#[test]
fn a_dry_run_says_what_is_trained() {
    let place = Place::with_model();
    let dry = |settings: &str| place.run(&format!("train --dry-run model.checkpoint=model {settings}"));
    let info = dry("lora.rank=4 lora.alpha=8 method.beta=0.04");
    info.says("Trained: an adapter, W + (8 / 4) B A with A and B of rank 4, of q_proj, v_proj;");
    assert!(!dry("").output().contains("adapter"));
    // Width 32, two heads, one of keys, two layers: q is 32 x 32, v is 16 x 32; four numbers each.
    let numbers = 2 * 4 * ((32 + 32) + (16 + 32));
    info.says(&format!("4 x 4 x {numbers} (the adapter, two moments, rounding residuals)"));
    info.says("4 x 3072 (what is under the adapter)");
}

#[test]
fn a_qwen3_checkpoint_is_described_and_takes_an_adapter() {
    let dir = tempfile::tempdir().unwrap();
    let (base, run) = (dir.path().join("base"), dir.path().join("run"));
    // Heads of 24 where width / heads is 16.
    let shape = ModelConfig { intermediate_size: 48, head_dim: 24, ..Qwen3.config(sized(32, 2)) };
    crate::common::checkpoint(&base, &shape, usize::MAX);

    let every = format!("lora.targets={}", lora::TARGETS.map(|(name, _)| name).join(","));
    let from = format!("model.checkpoint={}", base.display());
    let done = llm_train(&["train", "--dry-run", &from, "lora.rank=4", &every], "");
    let text = done.output();
    let parameters: usize = shape.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum();
    let (query, key, stream, mlp) = (48, 24, 32, 48);
    let matrices = [(query, stream), (key, stream), (key, stream), (stream, query)];
    let matrices = matrices.into_iter().chain([(mlp, stream), (mlp, stream), (stream, mlp)]);
    let adapter: usize = 2 * matrices.map(|(out, inner)| 4 * (out + inner)).sum::<usize>();
    for expected in [
        "architecture    Qwen3",
        &format!("parameters      {parameters}"),
        "heads           2 (1 of keys and values), dimension 24",
        &format!("4 x 4 x {adapter} (the adapter, two moments, rounding residuals)"),
    ] {
        assert!(text.contains(expected), "expected {expected:?}: {text}");
    }
    // On a GPU a step of it is counted like any other.
    for case in ["  bf16 ", "  f32 "] {
        let line = text.lines().find(|line| line.starts_with(case)).expect(case);
        assert!(line.contains("sampling ") && line.contains("at the peak: "), "{line}");
    }

    // The shape is the checkpoint's.
    let settings: Vec<&str> = words(SMALL).into_iter().filter(|s| !s.starts_with("model.")).collect();
    let start = ["train", "--run", run.to_str().unwrap(), "sft.steps=2", "rl.steps=2", &from];
    llm_train(&[&start[..], &settings].concat(), "").output();
    assert!(read(&step(&run, 1).join("reference")).1 == read(&base).1);
    for k in 1..=4 {
        let adapter = is_base_plus_adapter(&step(&run, k));
        // Reinforcement learning begins with a new adapter, on what supervised learning found.
        assert_eq!(b_is_zero(&adapter), k == 2, "step {k}");
    }
    assert_eq!(read(&step(&run, 4)).0.to_json(), shape.to_json());
}
