//! `llm-train generate`, `score`, `train --dry-run` and `train` with every method as a user runs them, against the library by another route.

use grpo_lambda::methods;
use grpo_lambda_decoder::generate::{Sampler, SamplingParams, SamplingRequest};
use grpo_lambda_decoder::model::{Architecture::Qwen2, Decoder, ModelShape, Rows};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_gpu::Dtype;
use grpo_lambda_trainer::config::{Config, TREE_METHODS};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::plan::shapes;
use grpo_lambda_trainer::plan::synthetic::predict;
use grpo_lambda_trainer::problems::MaxLengths;
use grpo_lambda_trainer::step::extra_inputs::{PROVIDED, provided, why_unavailable};
use serde_json::Value;

use crate::common::{Place, assert_has, checkpoint, llm_train, shape};
use crate::long;

/// Logits of the token after `row`, from the whole row at once.
fn next_logits(model: &Decoder<f32>, row: &[u32]) -> Vec<f64> {
    let mut rows = Rows::new();
    rows.push(row, 1);
    let logits = model.logits(&rows).unwrap();
    let v = model.config().vocab_size;
    logits[(row.len() - 1) * v..].iter().map(|x| f64::from(*x)).collect()
}

/// Log-probabilities and entropies of every token after the first, in f64, softmax written out.
fn reference(model: &Decoder<f32>, row: &[u32], temperature: f64) -> (Vec<f64>, Vec<f64>) {
    let one = |t: usize| {
        let z: Vec<f64> = next_logits(model, &row[..t]).iter().map(|x| x / temperature).collect();
        let sum: f64 = z.iter().map(|x| x.exp()).sum();
        let p = |x: f64| x.exp() / sum;
        (p(z[row[t] as usize]).ln(), -z.iter().map(|x| p(*x) * p(*x).ln()).sum::<f64>())
    };
    (1..row.len()).map(one).unzip()
}

fn ids(line: &Value) -> Vec<u32> {
    line["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn numbers(line: &Value, field: &str) -> Vec<f64> {
    line[field].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

#[test]
fn text_and_its_ids_are_the_same_prompt_and_greedy_takes_the_largest_logit() {
    let place = Place::new();
    let (model, tokens) = (place.model("model"), ModelTokenizer::tiny());
    let text = "Tom has 3 apples.";
    let prompt = tokens.prompt(text).unwrap().ids().to_vec();
    let both = format!("{}\n\n{}\n", serde_json::json!({"text": text}), serde_json::json!({"ids": prompt}));
    place.write("prompts.jsonl", both);
    let lines =
        place.run("generate --model model --greedy --max-new-tokens 12 --prompts prompts.jsonl").json();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], lines[1]);
    let found = ids(&lines[0]);
    assert_eq!(lines[0]["text"], tokens.text(&found).unwrap());
    assert_eq!(lines[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["ids", "text", "finish"]);

    let mut row = prompt;
    let mut expected = Vec::new();
    while expected.len() < 12 && !expected.last().is_some_and(|id| tokens.eos().contains(id)) {
        let logits = next_logits(&model, &row);
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap() as u32;
        expected.push(best);
        row.push(best);
    }
    assert_eq!(found, expected);
    // From stdin, and as the one token of top-k 1, whatever the temperature.
    let stdin = serde_json::json!({"text": text}).to_string();
    for more in ["--greedy", "--top-k 1 --temperature 3", "--top-p 1e-9"] {
        let line = format!("generate --model model --max-new-tokens 12 --prompts - {more}");
        assert_eq!(ids(&place.run_with(&line, &[], &stdin).json()[0]), expected, "{more:?}");
    }
}

#[test]
fn responses_end_with_the_end_token_or_at_the_limit_and_not_too_early() {
    let (place, eos) = (Place::with_model(), ModelTokenizer::tiny().eos()[0]);
    let generate = |more: &str| place.run(&format!("generate --model model --task 40 {more}")).json();
    for (more, least) in [("--max-new-tokens 90", 0), ("--max-new-tokens 90 --min-new-tokens 30", 30)] {
        let lines = generate(more);
        let mut ends = [0; 2];
        for line in &lines {
            let found = ids(line);
            let place = found.iter().position(|id| *id == eos);
            match line["finish"].as_str().unwrap() {
                "eos" => assert!(place == Some(found.len() - 1) && found.len() > least, "{line}"),
                "length" => assert!(place.is_none() && found.len() == 90, "{line}"),
                other => panic!("{other}"),
            }
            ends[usize::from(line["finish"] == "eos")] += 1;
        }
        assert!(lines.len() == 40 && ends[0] > 0 && ends[1] > 0, "{ends:?} with {more:?}");
        assert_eq!(lines, generate(more), "the same seed");
        assert_ne!(lines, generate(&format!("{more} --seed 1")));
    }
    let shortest = generate("--max-new-tokens 90").iter().map(|line| ids(line).len()).min();
    assert!(shortest < Some(30), "the minimum had nothing to do");
    // No end token where there is room for none.
    for line in generate("--max-new-tokens 20 --min-new-tokens 20") {
        assert!(line["finish"] == "length" && ids(&line).len() == 20 && !ids(&line).contains(&eos));
    }
}

#[test]
fn scores_are_those_of_a_softmax_written_out_and_of_the_sampler_to_the_bit() {
    let place = Place::new();
    let (model, tokens) = (place.model("model"), ModelTokenizer::tiny());
    let prompt = tokens.prompt("3 + 4").unwrap().ids().to_vec();
    let sampling = SamplingParams::new(9, 0.7);
    let address = |_, _| Address::new(5, Purpose::Rollout);
    let sampled =
        model.generate(&SamplingRequest::new(&[&prompt], 1, tokens.eos(), sampling, &address)).unwrap();
    let row: Vec<u32> = [&prompt[..], &sampled[0][0].tokens].concat();
    let stdin = format!("{}\n{}\n", serde_json::json!({"ids": row}), serde_json::json!({"ids": [7]}));
    for temperature in [0.7, 1.0] {
        let given = temperature.to_string();
        let more: &[&str] = if temperature == 1.0 { &[] } else { &["--temperature", &given] };
        let lines = place.run_with("score --model model", more, &stdin).json();
        assert_eq!(lines[1].to_string(), r#"{"logps":[],"entropies":[]}"#);
        let (logps, entropies) = (numbers(&lines[0], "logps"), numbers(&lines[0], "entropies"));
        let (expected, spread) = reference(&model, &row, temperature);
        assert_eq!((logps.len(), entropies.len()), (row.len() - 1, row.len() - 1));
        for (found, expected) in logps.iter().zip(&expected).chain(entropies.iter().zip(&spread)) {
            assert!((found - expected).abs() < 2e-5, "{found} {expected} at {temperature}");
        }
        let sum = |values: &[f64]| values.iter().sum::<f64>();
        assert!((sum(&logps) - sum(&expected)).abs() < 1e-4);
        if temperature == 0.7 {
            assert_eq!(logps[prompt.len() - 1..], sampled[0][0].logps);
        }
    }
}

#[test]
fn a_dry_run_reads_headers_only() {
    let place = Place::new();
    let model = checkpoint(&place.at("model"), &shape(), 40_000);
    let parameters: usize = model.parameters().values().map(|t| t.data.len()).sum();
    let dry = "train --dry-run model.checkpoint=model";
    let text = place.run(dry).output().to_owned();
    assert_has(
        &text,
        &format!("parameters      {parameters}\n … 4 bytes x {parameters} parameters … bytes of F32"),
    );
    assert!(!text.contains("reference model"), "{text}");
    place.run(&format!("{dry} method.beta=0.04 rl.group_size=3")).says("reference model … x 3 responses");

    // A model of 1.5 billion parameters: its file has a header and a hole. Little memory is allowed, and suffices.
    let large = grpo_lambda_decoder::model::ModelConfig {
        intermediate_size: 8960,
        ..Qwen2.config(ModelShape { vocab: 151_936, hidden: 1536, layers: 28, heads: 12, kv_heads: 2 })
    };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.json"), large.to_json()).unwrap();
    for (name, bytes) in ModelTokenizer::tiny().files() {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    let (mut header, mut end) = (serde_json::Map::new(), 0);
    for (name, shape) in large.parameter_shapes() {
        let bytes = 2 * shape.iter().product::<usize>();
        let info = serde_json::json!({"dtype": "BF16", "shape": shape, "data_offsets": [end, end + bytes]});
        header.insert(name, info);
        end += bytes;
    }
    let header = serde_json::to_vec(&header).unwrap();
    let path = dir.path().join("model.safetensors");
    std::fs::write(&path, [&(header.len() as u64).to_le_bytes()[..], &header].concat()).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len((8 + header.len() + end) as u64).unwrap();
    let mut command = std::process::Command::new("sh");
    let script = "ulimit -v 400000; exec \"$0\" train --dry-run model.checkpoint=\"$1\" method.beta=0.04";
    command.args(["-c", script, env!("CARGO_BIN_EXE_llm-train-tested")]).arg(dir.path());
    let done = crate::common::run(&mut command, "");
    done.says("parameters      1543714304\n … bytes of BF16");
}

/// Neither weights nor a card are needed to know what a step takes.
#[test]
fn the_memory_of_a_step_on_a_card_is_counted_from_the_shape_alone() {
    let shape = shapes::named("qwen2.5-math-1.5b").unwrap();
    let peak = |dtype: Dtype, more: &[&str]| {
        let config = Config::resolve_part("paper-qwen-1.5b", more).unwrap();
        let found = predict(&shape, &config, dtype, MaxLengths { prompt: 256, example: 0 }).unwrap();
        found.peak().0 as f64 / f64::from(1 << 30)
    };
    // Weights and reference in bf16, five numbers of four bytes a parameter next to them, and less than a tenth for the rest.
    let state = 1_543_714_304.0 * (2.0 + 2.0 + 5.0 * 4.0) / f64::from(1 << 30);
    let full = peak(Dtype::Bf16, &[]);
    assert!(full > state && full < 1.1 * state, "{full} GiB, state {state}");
    assert!(peak(Dtype::F32, &[]) > full && peak(Dtype::Bf16, &["lora.rank=16"]) < 8.0);
    assert_eq!(llm_train(&["bench", "qwen2.5-4b"], "").code, Some(2));
}

#[test]
fn a_bench_without_a_device_counts() {
    let base = ["bench", "qwen2.5-math-1.5b", "--device", "dry"];
    let bench = |more: &[&str]| {
        let text = llm_train(&[&base[..], more].concat(), "").output().to_owned();
        serde_json::from_str::<serde_json::Value>(text.lines().last().unwrap()).unwrap()
    };
    let full = bench(&[]);
    // Per layer: two norms, the heads, attention, SwiGLU and four products; embedding, last norm, head and sampler.
    assert_eq!(full["decode_step"]["launches"], 28 * 5 + 3);
    assert_eq!(full["decode_step"]["products"], 28 * 4 + 1);
    // 64 rows of 1 + 256, and prefixes of 255: of eight groups, two of which micro-batches of 8192 cut in two.
    let sizes = ["--prompts", "8", "--group", "8", "--prompt-tokens", "256", "--completion", "256"];
    let preset = bench(&sizes);
    assert_eq!(preset["updated_tokens"], f64::from(64 * 257 + 10 * 255));
    let seconds = preset["predicted_step_s"].as_f64().unwrap();
    assert!((0.5..1.3).contains(&seconds), "{preset}");
    // Layers are kept where 78 GiB are free, and computed again where 40 are.
    let recomputes = |bench: &serde_json::Value| bench["settings"]["recompute_layers"].as_bool();
    let small = bench(&[&sizes[..], &["--card-memory", "40"]].concat());
    assert_eq!((recomputes(&preset), recomputes(&small)), (Some(false), Some(true)));
    assert!(small["predicted_step_s"].as_f64() > Some(seconds), "{small}");
    let adapter = bench(&["--lora"]);
    assert_eq!(adapter["settings"]["lora_rank"], 16);
    assert!(adapter["memory"]["peak_bytes"].as_u64() < full["memory"]["peak_bytes"].as_u64());
    // Two thirds: no gradient of a frozen matrix.
    let ratio = adapter["update_tflop"].as_f64().unwrap() / full["update_tflop"].as_f64().unwrap();
    assert!((ratio - 2.0 / 3.0).abs() < 1e-9, "{ratio}");
}

/// The estimate is of what is allocated on purpose; code, stacks, rounded sizes and what the pool of work space keeps come on
/// top: 277 MiB were measured where 238 are estimated.
#[test]
fn the_estimated_memory_is_near_the_measured_peak() {
    let place = Place::new();
    let shape = Qwen2.config(ModelShape {
        vocab: ModelTokenizer::tiny().len(),
        hidden: 256,
        layers: 5,
        heads: 4,
        kv_heads: 2,
    });
    checkpoint(&place.at("model"), &shape, usize::MAX);
    let line = "bench model --device cpu --threads 2 --steps 1 --warmup 1 --prompts 4 --group 8 --completion 64 \
                --prompt-tokens 16 method.beta=0 memory.micro_batch_tokens=1000000 memory.recompute_layers=false";
    let text = place.run(line).output().to_owned();
    let line: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let measured = line["peak_rss_mib"].as_f64();
    let Some(measured) = measured else {
        eprintln!("skipped: this system does not tell the peak of a process's memory");
        return;
    };
    // 4 prompts of 16 tokens, 8 responses of 64 to each, in one forward pass.
    let step = grpo_lambda_trainer::plan::memory::StepShape {
        prompts: 4,
        group: 8,
        prompt_tokens: 16,
        new_tokens: 64,
        slots: None,
        micro_batch_tokens: usize::MAX,
        reference: false,
        critic: false,
        compensated: false,
        sampled_here: true,
        evaluated: 0,
        stems: None,
    };
    let estimate = grpo_lambda_trainer::plan::memory::estimate(&shape, &step, None).peak(false) as f64
        / f64::from(1 << 20);
    let ratio = measured / estimate;
    assert!((0.8..1.4).contains(&ratio), "measured {measured:.0} MiB, estimated {estimate:.0} MiB");
}

#[test]
fn a_run_directory_stands_for_its_latest_checkpoint() {
    let place = Place::new();
    let small = "model.hidden=32 model.layers=1 model.heads=2 model.kv_heads=1 eval.n=1 threads=1";
    let steps = "sft.steps=4 rl.steps=0 rl.max_new_tokens=2 checkpoint.every=1";
    place.run(&format!("train --run run {small} {steps}")).output();
    let checkpoint = |step: u64| format!("run/checkpoints/step-{step:08}");
    let line = "{\"ids\": [5, 6, 7]}";
    let score = |model: &str| place.run_with(&format!("score --model {model}"), &[], line);
    assert_eq!(score("run").output(), score(&checkpoint(4)).output());
    assert_ne!(score("run").output(), score(&checkpoint(3)).output());
    place.run("generate --model run --task 1").output();
    [3, 4].iter().for_each(|step| std::fs::remove_dir_all(place.at(&checkpoint(*step))).unwrap());
    score("run").refused(2, "--model … run: a run without a complete checkpoint");
}

/// Every method takes a step, or is refused in one line that says what it lacks, and nothing is left.
#[test]
fn train_takes_every_method_the_language_model_has_the_inputs_for() {
    let place = Place::new();
    let small = "model.hidden=32 model.layers=1 model.heads=2 model.kv_heads=1 eval.n=1 threads=1 sft.steps=0 rl.steps=1 \
                 rl.prompts_per_step=2 rl.group_size=3 rl.max_new_tokens=4 rl.completions=2 rl.children=3";
    const TREE: &str = "rl.sampling=tree";
    for (i, spec) in methods::REGISTRY.iter().enumerate() {
        // With a penalty and without; or by turns.
        for beta in ["0.1", "0"].into_iter().skip(long::of(i % 2, 0)).take(long::of(1, 2)) {
            let run = format!("{}-{beta}", spec.name);
            let own = if TREE_METHODS.contains(&spec.name) { TREE } else { "" };
            let method = format!("method.name={} method.beta={beta} {own}", spec.name);
            if !own.is_empty() {
                let line = format!(
                    "method.name = {}: compares the branches of a tree, and rl.sampling = independent samples none",
                    spec.name
                );
                let bare = place.run(&format!("train --run {run} {small} method.name={}", spec.name));
                bare.refused(2, &line);
                assert!(!place.at(&run).exists(), "{}", spec.name);
            }
            let done = place.run(&format!("train --run {run} {method} {small}"));
            let configured = methods::parse(spec.name, "").unwrap();
            let (needs, provided) = (configured.extra_inputs(), provided(&configured));
            let Some(missing) = needs.iter().find(|kind| !provided.contains(kind)) else {
                assert!(done.output().contains(spec.title), "{}", spec.name);
                continue;
            };
            let names = PROVIDED.iter().filter(|kind| *kind != missing);
            let names = names.map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
            let line = format!(
                "method.name={}: needs {} under these settings, provided by {}; {}; the language model provides {names}; choose another method \
                 (docs/conventions.md)",
                spec.name,
                missing.name(),
                missing.provided_by(),
                why_unavailable(*missing)
            );
            assert!(!why_unavailable(*missing).is_empty(), "{}", missing.name());
            done.refused(2, &line);
            assert!(!place.at(&run).exists(), "{}", spec.name);
            if spec.name == "prime" {
                place.run(&format!("train --dry-run {method} {small}")).refused(2, &line);
            }
        }
    }
    let trained = |name: &str| ["0", "0.1"].iter().any(|beta| place.at(&format!("{name}-{beta}")).exists());
    let own = ["tempo", "oar_p", "oar_g", "gdpo", "remax", "optimal_token_baseline", "rlsd"];
    let sampled = ["vine_ppo", "spo_chain", "spo_tree", "tree_rl", "tree_rpo_reconstructed"];
    assert!(own.iter().chain(&sampled).all(|name| trained(name)));
    assert!(trained("ppo") && !trained("prime") && !trained("systematic_visit"));
}

/// The problems are those of the run's own task, on which its accuracy was taken, from a run and from its checkpoint.
#[test]
fn held_out_problems_are_those_of_the_run() {
    let place = Place::new();
    let settings = "model.hidden=32 model.layers=1 model.heads=2 model.kv_heads=1 model.intermediate=32 seed=3 \
                    task.levels=1 task.max_operand=50 sft.steps=2 eval.n=2 rl.max_new_tokens=4";
    let done = place.run(&format!("sft --run run {settings}"));
    done.tells("no RL … parameters");
    assert!(!done.stderr.contains("problems a step"), "{}", done.stderr);
    let level = grpo_lambda_trainer::input::task::Level { steps: 1, max_operand: 50 };
    let task = grpo_lambda_trainer::input::task::Task::Stories(vec![level]);
    let problems = task.distinct(3, grpo_lambda_trainer::input::task::Split::Test, 2);
    for model in ["run", "run/checkpoints/step-00000002"] {
        let done = place.run(&format!("generate --model {model} --task 2 --seed 9 --max-new-tokens 4"));
        assert_eq!(done.json().len(), 2);
        for problem in &problems {
            let said = format!("{}answer: {}", problem.prompt, problem.answer_only());
            assert!(done.stderr.contains(&said), "{said} is not in {}", done.stderr);
        }
    }
}
