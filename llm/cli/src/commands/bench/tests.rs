use std::sync::Arc;

use clap::Parser;
use grpo_lambda_decoder::model::{Architecture::Qwen2, ModelShape};
use grpo_lambda_gpu::dry::Dry;
use grpo_lambda_gpu::{Device, DriverMemory, Dtype};
use grpo_lambda_trainer::plan::synthetic::{Clocked, StepPrediction, StepTimings};
use serde_json::Value;

use super::report::{CardMemory, Measured, measured};
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
    let base = ["bench", "qwen2.5-0.5b", "--steps", "1", "--warmup", "1"];
    let sizes = ["--prompts", "2", "--group", "2", "--completion", completion];
    let line = [&base[..], &sizes, more].concat();
    Line::try_parse_from(line).unwrap_or_else(|e| panic!("{e}")).args
}

fn small(args: &BenchArgs) -> Bench {
    let bench = Bench::new(args).unwrap_or_else(|e| panic!("{e:?}"));
    let shape = Qwen2.config(ModelShape { vocab: 61, hidden: 32, layers: 2, heads: 4, kv_heads: 2 });
    Bench { shape, ..bench }
}

/// It, measured on a device whose memory keeps no layer.
fn on_card(args: &BenchArgs, device: &Arc<dyn Device>) -> String {
    let (bench, prediction) = small(args).decided(0).expect("counted");
    card(&bench, prediction, args, device).expect("measured")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap_or_default()).expect("JSON")
}

#[test]
fn the_memory_of_a_step_is_what_was_predicted_to_the_byte() {
    let host = "memory.optimiser=host";
    for more in [&[][..], &["--lora"], &[host], &["--dtype", "f32", "memory.recompute_layers=false"]] {
        let args = args(more);
        let device: Arc<dyn Device> = Arc::new(Dry::default());
        let text = on_card(&args, &device);
        let memory = json(&text)["memory"].clone();
        assert_eq!(memory["counted_bytes"], memory["predicted"]["peak_bytes"], "{text}");
        assert_eq!(memory["peak_bytes"], memory["counted_bytes"], "{text}");
        assert!(memory["peak_bytes"].as_u64() > Some(100_000), "{text}");
        assert_eq!(device.ledger().total(), 0, "something is still held");
    }
}

/// The report states the driver's bytes, whole pages, and not those asked of it.
#[test]
fn memory_that_a_driver_rounds_up_is_reported_as_measured() {
    let args = args(&[]);
    let (bench, predicted) = small(&args).decided(0).expect("counted");
    let (counted, before, outside) = (predicted.peak().0, 5 << 20, 3 << 20);
    let rounded = counted.next_multiple_of(1 << 20) + (1 << 20);
    let now = DriverMemory { held: before, peak: before + rounded, outside };
    let held = Some(CardMemory { predicted, counted, before, now, made: 1.0 });
    let wall = StepTimings { prefill: 1.0, decode: 1.0, step: 2.0, ..StepTimings::default() };
    let phases = Clocked { wall, cpu: wall };
    let (device, dtype, peaks) = ("a card".to_owned(), Dtype::Bf16, Vec::new());
    let mismatch = Default::default();
    let step = Measured { device, dtype, phases, head: None, mismatch, peaks, held };
    let text = measured(&bench, &args, &step);
    let memory = json(&text)["memory"].clone();
    assert_eq!(memory["counted_bytes"], memory["predicted"]["peak_bytes"]);
    assert_eq!([&memory["peak_bytes"], &memory["outside_bytes"]], [rounded, outside]);
    assert_eq!(json(&text)["peak_device_mib"].as_f64(), Some(rounded as f64 / 1048576.0));
    let shown: Vec<&str> =
        text.lines().map(str::trim).filter(|line| line.starts_with("peak_bytes ")).collect();
    assert!(
        shown.len() == 2 && shown.iter().all(|line| line.ends_with("MiB")) && shown[0] != shown[1],
        "{text}"
    );
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
    let computed = |phase: &str| found["cpu_s"][phase].as_f64().expect(phase);
    assert!(phases.iter().all(|phase| computed(phase) >= 0.0) && computed("step") > 0.0, "{found}");
    assert_eq!(computed("logprob_loss"), computed("fwd_loss") + computed("backward"));
    let of_head = |phase: &str, clock: &str| found["head"][phase][clock].as_f64();
    let parts = ["generate", "fwd_loss", "backward"];
    assert!(
        parts.iter().all(|part| of_head(part, "wall_s") > Some(0.0) && of_head(part, "cpu_s") >= Some(0.0))
    );
    assert_eq!(seconds("logprob_loss"), seconds("fwd_loss") + seconds("backward"));
    // On the CPU sampler and trainer agree to the bit.
    assert_eq!((found["logp_error"].as_f64(), found["logp_error_max"].as_f64()), (Some(1.0), Some(1.0)));
    let (hours, cost) = (found["projected"]["hours"].as_f64(), found["projected"]["cost"].as_f64());
    // 7200 / 3600 of it, rounded once or twice.
    assert!(hours.is_some_and(|hours| (hours / seconds("step") - 2.0).abs() < 1e-12), "{found}");
    assert_eq!(cost, hours.map(|hours| 3.0 * hours));
    assert_eq!(
        json(&cpu(&small(&args), &self::args(&[])).expect("measured"))["projected"]["cost"],
        Value::Null
    );
}

/// Two layers of heads 4 + 2 x 2 of 8, width 32, MLP 88, vocabulary 61; two prompts of 3 tokens, two responses of 5 to
/// each.
#[test]
fn what_decoding_reads_is_counted_by_hand() {
    let args = args(&["--prompt-tokens", "3"]);
    let counts = small(&args).counts(Dtype::Bf16);
    let weights = 2 * (32 * 64 + 32 * 32 + 3 * 32 * 88) + 32 * 61;
    // Four steps, in which a row has 4, 5, 6 and 7 tokens; a token has 16 keys and 16 values in both layers.
    let cached = 4 * (4 + 5 + 6 + 7) * (2 * 2 * 16);
    assert_eq!(counts.decode_bytes, 2.0 * (4 * weights + cached) as f64);
    // Two prompts of which 2 tokens are shared, four rows of 1 + 5.
    assert_eq!((counts.sampled, counts.updated), (20.0, (2 * 2 + 4 * 6) as f64));
}

#[test]
fn settings_come_from_the_preset_unless_given() {
    let bench = Bench::new(&args(&["--lora", "rl.inner_updates=2"])).expect("accepted");
    let rl = &bench.config.rl;
    assert_eq!((rl.prompts_per_step, rl.group_size, rl.max_new_tokens, rl.inner_updates), (2, 2, 5, 2));
    assert_eq!((bench.prompt_tokens, bench.config.lora.map(|l| l.rank)), (128, Some(16)));
    let long = Bench::new(&args(&["--prompt-tokens", "40000"])).err().expect("refused");
    assert!(long.message.contains("--prompt-tokens 40000") && long.code == 2);
}

/// Launch by launch, decoding reads what the shape says it must, and little besides it.
#[test]
fn a_dry_bench_counts_the_phases_of_a_step() {
    let args = sized("40", &["--prompt-tokens", "30", "memory.recompute_layers=auto"]);
    let bench = Bench::new(&args).expect("accepted");
    let dry = |bench: Bench, free: u64| {
        let (bench, prediction) = bench.decided(free).expect("counted");
        json(&report::counted(&bench, &args, &prediction, free).expect("counted"))
    };
    let found = dry(bench, 0);
    assert_eq!(found["settings"]["recompute_layers"], true);
    let bench = Bench::new(&args).expect("accepted");
    let read = bench.counts(Dtype::Bf16).decode_bytes;
    let found = dry(bench, u64::MAX);
    assert_eq!(found["settings"]["recompute_layers"], false);
    let phases = found["predicted"]["phases"].as_object().expect("phases");
    let seconds: f64 = phases.values().map(|phase| phase["seconds"].as_f64().expect("a number")).sum();
    let total = found["predicted_step_s"].as_f64().expect("a number");
    assert!(total > 0.0 && (total - seconds).abs() < 1e-12 * total, "{found}");
    let counted = phases["decode"]["bytes"].as_f64().expect("a number");
    assert!(counted > read && counted < 1.05 * read, "{counted} of {read} bytes");
}

/// The step of a published shape, counted for a card with 78 GiB free.
fn counted(line: &[&str]) -> StepPrediction {
    let args = Line::try_parse_from([&["bench"], line].concat()).unwrap_or_else(|e| panic!("{e}")).args;
    Bench::new(&args).and_then(|bench| bench.decided(78 << 30)).unwrap_or_else(|e| panic!("{e:?}")).1
}

#[test]
fn the_page_on_cards_has_the_seconds_that_were_measured() {
    let read =
        |path: &str| std::fs::read_to_string(format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let page = read("docs/gpu.md");
    let seconds = |file: &str, run: &str, figure: &str| {
        let text = read(&format!("paper/data/gpu_{file}.csv"));
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{run},wall_s.{figure},")));
        line.unwrap().parse::<f64>().unwrap()
    };
    for (row, figure) in [
        ("sampling", "generate"),
        ("reference", "reference"),
        ("log-probabilities and loss", "fwd_loss"),
        ("gradients", "backward"),
        ("optimiser", "optimizer"),
        ("the step", "step"),
    ] {
        let line = page.lines().find(|line| line.starts_with(&format!("| {row} | 0."))).unwrap_or_default();
        for card in ["h100", "h200"] {
            let ours = seconds(&format!("{card}_bench"), "qwen2.5-math-1.5b", figure);
            let theirs = seconds(&format!("{card}_torch"), "plain", figure);
            let reported = format!("| {ours:.3} | {theirs:.3} | {:.1}", theirs / ours);
            assert!(line.contains(&reported), "{row}: {reported}");
        }
    }
    for (row, run, line) in [
        ("1.5B, responses of 256", "", "--completion 256 memory.recompute_layers=true"),
        ("the same", "-kept", "--completion 256 memory.recompute_layers=false"),
        ("1.5B, 16 prompts", "-128", "--completion 256 --prompts 16"),
        ("1.5B, responses of 1,024", "-1024", "--completion 1024"),
    ] {
        let line: Vec<&str> =
            ["qwen2.5-math-1.5b", "--prompt-tokens", "256"].into_iter().chain(line.split(' ')).collect();
        let bound: f64 = counted(&line).kernels.values().sum();
        let measured = seconds("h100_bench", &format!("qwen2.5-math-1.5b{run}"), "step");
        let reported = format!("| {bound:.3} | {measured:.3} | {:.0} % |", 100.0 * bound / measured);
        assert!(
            page.lines().any(|line| line.starts_with(&format!("| {row}")) && line.ends_with(&reported)),
            "{reported}"
        );
    }
}

#[test]
fn the_page_on_cards_has_the_seconds_that_are_counted() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gpu.md")).unwrap();
    let sizes = ["--prompts", "8", "--group", "8", "--completion", "256", "--prompt-tokens", "256"];
    let step = counted(&[&["qwen2.5-math-1.5b"], &sizes[..], &["memory.recompute_layers=true"]].concat());
    let sum = |chosen: &dyn Fn(&str, &str) -> bool| {
        let found = step.kernels.iter().filter(|((phase, kernel), _)| chosen(phase, kernel));
        format!("| {:.3} s |", found.map(|(_, seconds)| seconds).sum::<f64>())
    };
    for (row, bound) in [
        ("products of prefill", sum(&|phase, kernel| phase != "decode" && kernel == "products")),
        ("products of decoding", sum(&|phase, kernel| phase == "decode" && kernel == "products")),
        ("| `attention`", sum(&|_, kernel| kernel.starts_with("attention"))),
        ("| `decode_attention`", sum(&|_, kernel| kernel == "decode_attention")),
        ("| `swiglu`", sum(&|_, kernel| kernel.starts_with("swiglu"))),
    ] {
        let line = page.lines().find(|line| line.contains(row)).unwrap_or_default();
        assert!(line.contains(&bound), "{row}: {bound}");
    }
    let long = ["--prompts", "2", "--group", "2", "--completion", "16", "--prompt-tokens", "16384"];
    let long = counted(&[&["r1-distill-qwen-1.5b"], &long[..]].concat());
    let [products, attention] = ["products", "attention"].map(|kernel| long.kernels[&("prefill", kernel)]);
    let (tflop, seconds) = (long.work.prefill.operations / 1e12, long.work.prefill.seconds);
    let reported = format!(
        "{tflop:.0} Tflop, bounded by {seconds:.3} s: products {products:.3}, attention {attention:.3}."
    );
    assert!(page.contains(&reported), "{reported}");
}
