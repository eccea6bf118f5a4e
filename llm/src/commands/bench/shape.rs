//! A step of training on made-up weights of a published shape: where its time goes, how near it is to what the device can do, and what a
//! run would take.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use grpo_lambda::group::EvidenceKind;
use grpo_lambda_decoder::model::{Config as Shape, Decoder, weights};
use grpo_lambda_gpu::ledger::Uses;
use grpo_lambda_gpu::probe::{self, Reached};
use grpo_lambda_gpu::select::{Found, look};
use grpo_lambda_gpu::{Device, Dtype};
use serde_json::{Value, json};

use super::super::info::gpu::gib;
use super::super::{Failure, print, use_threads};
use super::BenchArgs;
use crate::config::Config;
use crate::plan::roofline;
use crate::plan::shapes;
use crate::plan::synthetic::{self, Phases, Prediction, TrialError, made_up, predict};
use crate::problems::Longest;
use crate::run::progress::say;
use crate::step::engine::{Cpu, Engine, Made, Stage};
use crate::study::reproduce::cost::{Accelerator, of_device};

/// Where a bench computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Where {
    /// A CUDA card.
    Cuda,
    /// This processor, in f32.
    Cpu,
    /// Nowhere: launches, operations and memory are counted.
    Dry,
}

/// Arguments of `bench` with a shape.
#[derive(Clone, Debug, clap::Args)]
pub struct ShapeArgs {
    /// Instead of a checkpoint, the shape of a published model, as in qwen2.5-math-1.5b
    #[arg(long, value_name = "NAME", conflicts_with = "model", requires = "random_weights")]
    pub model_shape: Option<String>,
    /// With --model-shape: the weights are random numbers
    #[arg(long, requires = "model_shape")]
    pub random_weights: bool,
    /// With --model-shape: where to compute; the default is a CUDA card if there is one, else dry
    #[arg(long, value_name = "DEVICE", requires = "model_shape")]
    pub device: Option<Where>,
    /// With --model-shape: f32 or bf16 on a card and dry
    #[arg(long, value_name = "DTYPE", default_value = "bf16", value_parser = ["f32", "bf16"], requires = "model_shape")]
    pub dtype: String,
    /// With --model-shape: train an adapter, that of the preset or of rank 16
    #[arg(long, requires = "model_shape")]
    pub lora: bool,
    /// With --model-shape: the settings of a step
    #[arg(long, value_name = "NAME|FILE", default_value = "paper-qwen-1.5b", requires = "model_shape")]
    pub preset: String,
    /// With --model-shape: steps of the run whose time is projected
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = super::count, requires = "model_shape")]
    pub projected_steps: usize,
    /// With --model-shape: what an hour of the device costs, in any currency; without it no cost is projected
    #[arg(long, value_name = "PRICE", requires = "model_shape")]
    pub price_per_hour: Option<f64>,
    /// With --model-shape: settings over the preset's, as in rl.group_size=16
    #[arg(value_name = "key=value", requires = "model_shape")]
    pub overrides: Vec<String>,
}

/// Tokens of a prompt where nothing is said: half the limit of the paper.
const PROMPT_TOKENS: usize = 128;

/// What is measured.
struct Bench {
    name: String,
    shape: Shape,
    config: Config,
    dtype: Dtype,
    prompt_tokens: usize,
}

/// Counts of a step that follow from shapes.
struct Counts {
    /// Tokens sampled.
    sampled: f64,
    /// Tokens that pass through an update, prompts included.
    updated: f64,
    /// Bytes of weights, keys and values that decoding reads.
    decode_bytes: f64,
    /// Operations of an update, those of layers computed again apart.
    update_operations: f64,
    recomputed_operations: f64,
}

impl Bench {
    fn new(args: &BenchArgs, name: &str) -> Result<Self, Failure> {
        let shape = shapes::named(name).map_err(Failure::refused)?;
        let mut config =
            Config::resolve(&args.shape.preset, &args.shape.overrides).map_err(Failure::refused)?;
        let mut more = Vec::new();
        for (key, value) in [
            ("rl.prompts_per_step", args.prompts),
            ("rl.group_size", args.group),
            ("rl.max_new_tokens", args.completion),
        ] {
            more.extend(value.map(|n| format!("{key}={n}")));
        }
        if args.shape.lora && config.lora.is_none() {
            more.push("lora.rank=16".to_owned());
        }
        // No evaluation is measured, so none is predicted.
        more.push("eval.n=1".to_owned());
        config = config.with(&more).map_err(Failure::refused)?;
        let prompt_tokens = match args.prompt_tokens[..] {
            [] => PROMPT_TOKENS,
            [n] => n,
            _ => {
                return Err(Failure::refused(
                    "--prompt-tokens: with --model-shape all prompts have one length: give one number",
                ));
            }
        };
        let (row, limit) = (prompt_tokens + config.rl.max_new_tokens, shape.max_position_embeddings);
        if row > limit {
            return Err(Failure::refused(format!(
                "--prompt-tokens {prompt_tokens}: with rl.max_new_tokens = {} it exceeds the model's limit of {limit}",
                config.rl.max_new_tokens
            )));
        }
        let dtype = if args.shape.dtype == "f32" { Dtype::F32 } else { Dtype::Bf16 };
        Ok(Bench { name: name.to_owned(), shape, config, dtype, prompt_tokens })
    }

    fn counts(&self, dtype: Dtype) -> Counts {
        let (c, rl) = (&self.shape, &self.config.rl);
        let responses = (rl.prompts_per_step * rl.group_size) as f64;
        let (prompt, new) = (self.prompt_tokens as f64, rl.max_new_tokens as f64);
        let forward = responses
            * roofline::forward(c, [(self.prompt_tokens + rl.max_new_tokens, rl.max_new_tokens)])
            * rl.inner_updates as f64;
        // The last token is sampled and never read.
        let steps = new - 1.0;
        let weights = roofline::decode_weight_bytes(c, 1) / 4.0;
        let per_token = (2 * c.num_hidden_layers * c.num_key_value_heads * c.head_dim) as f64;
        let positions = steps * prompt + steps * (steps + 1.0) / 2.0;
        let passes = if self.config.lora.is_some() { 2.0 } else { 3.0 };
        Counts {
            sampled: responses * new,
            updated: responses * (prompt + new) * rl.inner_updates as f64,
            decode_bytes: dtype.bytes() as f64 * (steps * weights + responses * per_token * positions),
            update_operations: passes * forward,
            recomputed_operations: if self.config.memory.recompute_layers { forward } else { 0.0 },
        }
    }

    fn describe(&self, device: &str, dtype: Dtype) -> String {
        let rl = &self.config.rl;
        let trained = match &self.config.lora {
            Some(lora) => format!("an adapter of rank {} on {}", lora.rank, lora.targets.join(", ")),
            None => "all weights".to_owned(),
        };
        let reference = self.config.configured().evidence().contains(&EvidenceKind::RefLogps);
        format!(
            "{} on {device} in {}, training {trained}: {} prompts of {} tokens x {} responses of {}{}{}\n",
            self.name,
            dtype.name(),
            rl.prompts_per_step,
            self.prompt_tokens,
            rl.group_size,
            rl.max_new_tokens,
            if reference { ", scored by a reference" } else { "" },
            if self.config.memory.recompute_layers { ", layers recomputed" } else { "" },
        )
    }

    fn settings(&self, device: &str, dtype: Dtype) -> Value {
        let rl = &self.config.rl;
        json!({
            "shape": self.name, "device": device, "dtype": dtype.name(), "lora_rank": self.config.lora.as_ref().map(|l| l.rank),
            "prompts": rl.prompts_per_step, "prompt_tokens": self.prompt_tokens, "group": rl.group_size,
            "new_tokens": rl.max_new_tokens, "inner_updates": rl.inner_updates,
            "micro_batch_tokens": self.config.memory.micro_batch_tokens, "recompute_layers": self.config.memory.recompute_layers,
            "method": self.config.method,
        })
    }
}

/// Runs it.
///
/// # Errors
/// When an argument is refused, there is too little memory, or the device fails.
pub(super) fn run(args: &BenchArgs, name: &str) -> Result<(), Failure> {
    if let Some(price) = args.shape.price_per_hour.filter(|p| !p.is_finite() || *p < 0.0) {
        return Err(Failure::refused(format!("--price-per-hour {price}: must be a number of at least 0")));
    }
    let bench = Bench::new(args, name)?;
    use_threads(args.threads.unwrap_or(0))?;
    match args.shape.device {
        Some(Where::Dry) => print(&dry(&bench)?),
        Some(Where::Cpu) => print(&cpu(&bench, args)?),
        other => match look(bench.dtype, say) {
            Found::Card(device) => print(&card(&bench, args, &device)?),
            Found::NotBuilt if other.is_some() => Err(Failure::refused(
                "--device cuda: this llm-train was built without CUDA: build it with --features cuda, or give --device dry or cpu",
            )),
            Found::Nothing(reason) if other.is_some() => {
                Err(Failure::refused(format!("--device cuda: {reason}")))
            }
            found => {
                if let Found::Nothing(reason) = found {
                    eprintln!("nothing is measured: {reason}");
                }
                print(&dry(&bench)?)
            }
        },
    }
}

fn failed(error: TrialError) -> Failure {
    match error {
        TrialError::Evidence { .. } => Failure::refused(error),
        other => Failure::broke(other),
    }
}

fn predicted(bench: &Bench, dtype: Dtype) -> Result<Prediction, Failure> {
    predict(&bench.shape, &bench.config, dtype, Longest { prompt: bench.prompt_tokens, example: 0 })
        .map_err(failed)
}

/// Counts without computing.
fn dry(bench: &Bench) -> Result<String, Failure> {
    let (p, counts) = (predicted(bench, bench.dtype)?, bench.counts(bench.dtype));
    let rl = &bench.config.rl;
    let per_step = counts.decode_bytes / (rl.max_new_tokens as f64 - 1.0).max(1.0);
    let mut text = bench.describe("no device", bench.dtype);
    let _ = writeln!(
        text,
        "a step of decoding: {} kernels and {} products, {:.2} GB read on average",
        p.decode.launches,
        p.decode.products,
        per_step / 1e9
    );
    let _ = writeln!(
        text,
        "an update: {:.1} Tflop, and {:.1} for layers computed again",
        counts.update_operations / 1e12,
        counts.recomputed_operations / 1e12
    );
    let _ = writeln!(text, "memory: {} while sampling, {} in an update", gib(p.sampling.0), gib(p.update.0));
    p.peak().1.iter().filter(|(_, bytes)| **bytes > 0).for_each(|(use_, bytes)| {
        let _ = writeln!(text, "  {use_:20}{:>12}", gib(*bytes));
    });
    let line = json!({
        "impl": "grpo-lambda",
        "settings": bench.settings("dry", bench.dtype),
        "decode_step": {"launches": p.decode.launches, "products": p.decode.products, "gflop": p.decode.operations / 1e9, "bytes": per_step},
        "update_tflop": counts.update_operations / 1e12,
        "recomputed_tflop": counts.recomputed_operations / 1e12,
        "sampled_tokens": counts.sampled,
        "updated_tokens": counts.updated,
        "memory": memory(&p),
    });
    Ok(format!("{text}{line}\n"))
}

fn memory(p: &Prediction) -> Value {
    let held = |uses: &Uses| uses.iter().filter(|(_, b)| **b > 0).map(|(n, b)| (*n, *b)).collect::<Uses>();
    let (peak, uses) = p.peak();
    json!({
        "state": held(&p.state), "sampling_bytes": p.sampling.0, "update_bytes": p.update.0, "peak_bytes": peak, "at_peak": held(uses),
    })
}

/// Medians of the measured steps.
fn measure<E: Engine>(
    bench: &Bench,
    args: &BenchArgs,
    engine: &mut E,
    device: Option<&Arc<dyn Device>>,
) -> Result<Phases, Failure> {
    let mut all = Vec::new();
    for number in 0..args.warmup + args.steps {
        let phases = synthetic::step(engine, &bench.config, device, bench.prompt_tokens, number as u64)
            .map_err(failed)?;
        if number >= args.warmup {
            all.push(phases);
        }
    }
    let median = |pick: fn(&Phases) -> f64| {
        let mut values: Vec<f64> = all.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Ok(Phases {
        prefill: median(|p| p.prefill),
        decode: median(|p| p.decode),
        reference: median(|p| p.reference),
        forward: median(|p| p.forward),
        backward: median(|p| p.backward),
        optimiser: median(|p| p.optimiser),
        step: median(|p| p.step),
        drift: all.last().map_or_else(Default::default, |p| p.drift),
    })
}

/// On this processor; its peaks are those of the bench with a checkpoint.
fn cpu(bench: &Bench, args: &BenchArgs) -> Result<String, Failure> {
    let parameters = weights::initialise(&bench.shape, 0, 0.02);
    let reference = bench.config.configured().evidence().contains(&EvidenceKind::RefLogps);
    let stage = Stage {
        lora: bench.config.lora.clone(),
        reference: (reference && bench.config.lora.is_none()).then(|| parameters.clone()),
        ..Stage::new(bench.config.rl.adam.clone())
    };
    let model = Decoder::new(bench.shape.clone(), parameters).map_err(Failure::refused)?;
    let mut engine = Cpu::start(model, stage).map_err(Failure::refused)?;
    let phases = measure(bench, args, &mut engine, None)?;
    let report =
        Report { bench, args, dtype: Dtype::F32, device: "the CPU".to_owned(), phases, peaks: Vec::new() };
    Ok(report.text(None))
}

fn card(bench: &Bench, args: &BenchArgs, device: &Arc<dyn Device>) -> Result<String, Failure> {
    let prediction = predicted(bench, bench.dtype)?;
    let (free, _) = device.memory().map_err(Failure::broke)?;
    synthetic::memory_check(&prediction, free, &bench.config).map_err(Failure::refused)?;
    let reached = probe::measure(device, bench.dtype).map_err(Failure::broke)?;
    let before = device.ledger().total();
    device.ledger().forget_peak();
    let clock = Instant::now();
    let mut engine =
        made_up(device, &bench.shape, &bench.config, bench.dtype, Made::Random).map_err(Failure::broke)?;
    device.synchronize().map_err(Failure::broke)?;
    let made = clock.elapsed().as_secs_f64();
    let phases = measure(bench, args, &mut engine, Some(device))?;
    let mut peaks = vec![("measured here", reached)];
    // Data sheets give the rate of bf16.
    if let (Some(sheet), Dtype::Bf16) = (of_device(&device.name()), bench.dtype) {
        peaks.push(("data sheet", of(sheet)));
    }
    let found = device.ledger().peak().0 - before;
    let report = Report { bench, args, dtype: bench.dtype, device: device.name(), phases, peaks };
    Ok(report.text(Some(Held { predicted: prediction, found, made })))
}

fn of(sheet: &Accelerator) -> Reached {
    Reached { bandwidth: sheet.bandwidth, operations: sheet.flops }
}

/// Memory of a card.
struct Held {
    predicted: Prediction,
    /// Bytes at the peak.
    found: u64,
    /// Seconds to make the weights.
    made: f64,
}

struct Report<'a> {
    bench: &'a Bench,
    args: &'a BenchArgs,
    dtype: Dtype,
    device: String,
    phases: Phases,
    /// What the device can do, and who says so.
    peaks: Vec<(&'static str, Reached)>,
}

impl Report<'_> {
    fn text(&self, held: Option<Held>) -> String {
        let (p, counts) = (self.phases, self.bench.counts(self.dtype));
        let (sampling, update) = (p.prefill + p.decode, p.forward + p.backward + p.optimiser);
        let gradient = p.forward + p.backward;
        let (bandwidth, operations) = (counts.decode_bytes / p.decode, counts.update_operations / gradient);
        let hours = p.step * self.args.shape.projected_steps as f64 / 3600.0;
        let mut text = self.bench.describe(&self.device, self.dtype);
        for (name, seconds) in [
            ("prefill", p.prefill),
            ("decode", p.decode),
            ("reference", p.reference),
            ("forward", p.forward),
            ("backward", p.backward),
            ("optimiser", p.optimiser),
            ("step", p.step),
        ] {
            let _ = writeln!(text, "  {name:12}{:>10.4} s {:>6.1} %", seconds, 100.0 * seconds / p.step);
        }
        let (rollout_rate, update_rate) = (counts.sampled / sampling, counts.updated / update);
        let _ = writeln!(text, "rollout {rollout_rate:.0} tokens/s, update {update_rate:.0} tokens/s");
        let _ = writeln!(
            text,
            "decode reads {:.1} GB/s of weights, keys and values; the update does {:.2} Tflop/s (layers computed again not counted)",
            bandwidth / 1e9,
            operations / 1e12
        );
        let mut shares = serde_json::Map::new();
        for (source, peak) in &self.peaks {
            let (read, done) = (bandwidth / peak.bandwidth, operations / peak.operations);
            let _ = writeln!(
                text,
                "  of {:.0} GB/s and {:.0} Tflop/s ({source}): {:.1} % in decode, {:.1} % in the update",
                peak.bandwidth / 1e9,
                peak.operations / 1e12,
                100.0 * read,
                100.0 * done
            );
            shares.insert(
                (*source).to_owned(),
                json!({"bytes_per_s": peak.bandwidth, "flop_per_s": peak.operations, "decode_share": read, "update_share": done}),
            );
        }
        if let Some(held) = &held {
            let predicted = held.predicted.peak().0;
            let off = 100.0 * (held.found as f64 / predicted as f64 - 1.0);
            let _ = writeln!(
                text,
                "memory {} at the peak; {} were predicted ({off:+.1} %)",
                gib(held.found),
                gib(predicted)
            );
        }
        let cost = self.args.shape.price_per_hour.map(|price| price * hours);
        let costs = cost.map_or(String::new(), |cost| format!(", {cost:.2} at the price given"));
        let _ =
            writeln!(text, "{} steps would take {hours:.1} hours{costs}", self.args.shape.projected_steps);
        let line = json!({
            "impl": "grpo-lambda",
            "settings": self.bench.settings(&self.device, self.dtype),
            "steps": self.args.steps,
            "wall_s": {
                "prefill": p.prefill, "decode": p.decode, "generate": p.prefill + p.decode, "reference": p.reference, "fwd_loss": p.forward,
                "backward": p.backward, "logprob_loss": p.forward + p.backward, "optimizer": p.optimiser, "step": p.step, "making_weights": held.as_ref().map(|h| h.made),
            },
            "rollout_tok_per_s": rollout_rate,
            "update_tok_per_s": update_rate,
            "decode_bytes_per_s": bandwidth,
            "update_flop_per_s": operations,
            "recomputed_flop": counts.recomputed_operations,
            "peaks": shares,
            "logp_error": p.drift.mean(),
            "logp_error_max": p.drift.max(),
            "peak_device_mib": held.as_ref().map(|h| h.found as f64 / f64::from(1 << 20)),
            "memory": held.as_ref().map(|h| json!({"peak_bytes": h.found, "predicted": memory(&h.predicted)})),
            "projected": {"steps": self.args.shape.projected_steps, "hours": hours, "cost": cost},
        });
        format!("{text}{line}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use grpo_lambda_gpu::dry::Dry;

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
}
