use std::sync::Arc;

use clap::Parser;
use grpo_lambda_decoder::model::Config as Shape;
use grpo_lambda_gpu::dry::Dry;
use grpo_lambda_gpu::{Device, Dtype};
use serde_json::Value;

use super::plan::PROMPT_TOKENS;
use super::*;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: BenchArgs,
}

fn args(more: &[&str]) -> BenchArgs {
    sized("5", more)
}

fn sized(completion: &str, more: &[&str]) -> BenchArgs {
    let base =
        ["bench", "--model-shape", "qwen2.5-0.5b", "--random-weights", "--steps", "1", "--warmup", "1"];
    let sizes = ["--prompts", "2", "--group", "2", "--completion", completion];
    let line = [&base[..], &sizes, more].concat();
    Line::try_parse_from(line).unwrap_or_else(|e| panic!("{e}")).args
}

fn small(args: &BenchArgs) -> Bench {
    let bench = Bench::new(args, "qwen2.5-0.5b").unwrap_or_else(|e| panic!("{e:?}"));
    Bench { shape: Shape::qwen2(61, 32, 2, 4, 2), ..bench }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap_or_default()).expect("JSON")
}

#[test]
fn the_memory_of_a_step_is_what_was_predicted_to_the_byte() {
    for more in [&[][..], &["--lora"], &["--dtype", "f32", "memory.recompute_layers=false"]] {
        let args = args(more);
        let device: Arc<dyn Device> = Arc::new(Dry::default());
        let text = card(&small(&args), &args, &device).expect("measured");
        let memory = json(&text)["memory"].clone();
        assert_eq!(memory["peak_bytes"], memory["predicted"]["peak_bytes"], "{text}");
        assert!(memory["peak_bytes"].as_u64() > Some(100_000), "{text}");
        assert_eq!(device.ledger().total(), 0, "something is still held");
    }
}

#[test]
fn every_phase_is_timed_and_the_run_is_projected() {
    let args = sized("6", &["--projected-steps", "7200", "--price-per-hour", "3"]);
    let found = json(&cpu(&small(&args), &args).expect("measured"));
    let seconds = |phase: &str| found["wall_s"][phase].as_f64().expect(phase);
    let phases = ["prefill", "decode", "reference", "fwd_loss", "backward", "optimizer"];
    // How long is the machine's business; decoding is a difference of two rollouts, which noise can take to 0.
    assert!(phases.iter().all(|phase| seconds(phase) >= 0.0) && seconds("step") > 0.0, "{found}");
    assert_eq!(seconds("generate"), seconds("prefill") + seconds("decode"));
    assert_eq!(seconds("logprob_loss"), seconds("fwd_loss") + seconds("backward"));
    // On the CPU sampler and trainer agree to the bit.
    assert_eq!((found["logp_error"].as_f64(), found["logp_error_max"].as_f64()), (Some(1.0), Some(1.0)));
    let (hours, cost) = (found["projected"]["hours"].as_f64(), found["projected"]["cost"].as_f64());
    assert_eq!(hours, Some(2.0 * seconds("step")));
    assert_eq!(cost, hours.map(|hours| 3.0 * hours));
    assert_eq!(
        json(&cpu(&small(&args), &self::args(&[])).expect("measured"))["projected"]["cost"],
        Value::Null
    );
}

/// Two layers of heads 4 + 2 x 2 of 8, width 32, MLP 88, vocabulary 61; two prompts of 3 tokens, two responses of 5 to each.
#[test]
fn what_decoding_reads_is_counted_by_hand() {
    let args = args(&["--prompt-tokens", "3"]);
    let counts = small(&args).counts(Dtype::Bf16);
    let weights = 2 * (32 * 64 + 32 * 32 + 3 * 32 * 88) + 32 * 61;
    // Four steps, in which a row has 4, 5, 6 and 7 tokens; a token has 16 keys and 16 values in both layers.
    let cached = 4 * (4 + 5 + 6 + 7) * (2 * 2 * 16);
    assert_eq!(counts.decode_bytes, 2.0 * (4 * weights + cached) as f64);
    assert_eq!((counts.sampled, counts.updated), (20.0, 32.0));
}

#[test]
fn settings_come_from_the_preset_unless_given() {
    let bench = Bench::new(&args(&["--lora", "rl.inner_updates=2"]), "qwen2.5-0.5b").expect("accepted");
    let rl = &bench.config.rl;
    assert_eq!((rl.prompts_per_step, rl.group_size, rl.max_new_tokens, rl.inner_updates), (2, 2, 5, 2));
    assert_eq!((bench.prompt_tokens, bench.config.lora.map(|l| l.rank)), (PROMPT_TOKENS, Some(16)));
    let long = Bench::new(&args(&["--prompt-tokens", "40000"]), "qwen2.5-0.5b").err().expect("refused");
    assert!(long.message.contains("--prompt-tokens 40000") && long.code == 2);
}
