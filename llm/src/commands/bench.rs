//! `llm-train bench`: where the time of a training step goes, as one JSON line.

mod shape;

use std::path::PathBuf;
use std::time::Instant;

use cpu_time::ProcessTime;
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods;
use grpo_lambda_decoder::model::{Options, Rows};
use grpo_lambda_decoder::optim::AdamWSettings;
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::rollout::{Ask, Sampler, Sampling};
use serde_json::json;

use super::{Failure, checkpoint, count, load_model, print, use_threads, whole};
use crate::plan::memory::peak_rss_mib;
use crate::plan::roofline;
use crate::step::engine::{Cpu, Engine, Stage};

/// Arguments of `bench`.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchArgs {
    /// Checkpoint directory, or a run directory for its latest
    #[arg(long, value_name = "DIR", required_unless_present = "model_shape")]
    pub model: Option<PathBuf>,
    /// Worker threads; 0: as many as the machine has; the default is 1, and 0 with --model-shape
    #[arg(long, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub threads: Option<usize>,
    /// Steps measured
    #[arg(long, default_value_t = 5, value_parser = count, allow_negative_numbers = true)]
    pub steps: usize,
    /// Steps before measuring
    #[arg(long, default_value_t = 2, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub warmup: usize,
    /// Prompts per step; the default is 4, and the preset's with --model-shape
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    pub prompts: Option<usize>,
    /// Responses per prompt; the default is 8, and the preset's with --model-shape
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    pub group: Option<usize>,
    /// Tokens per response; every response has full length; the default is 64, and the preset's with --model-shape
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    pub completion: Option<usize>,
    /// Tokens of the prompts, in turn; the default is 10,43,12, what the prompts of the Python peers have, and 128 with --model-shape
    #[arg(long, value_delimiter = ',', value_parser = count, allow_negative_numbers = true)]
    pub prompt_tokens: Vec<usize>,
    /// Without a checkpoint
    #[command(flatten)]
    pub shape: shape::ShapeArgs,
}

/// Prompts, responses to each, and lengths of a step on a checkpoint.
struct Sizes {
    prompts: usize,
    group: usize,
    completion: usize,
    prompt_tokens: Vec<usize>,
}

impl Sizes {
    fn new(args: &BenchArgs) -> Self {
        let prompt_tokens =
            if args.prompt_tokens.is_empty() { vec![10, 43, 12] } else { args.prompt_tokens.clone() };
        Sizes {
            prompts: args.prompts.unwrap_or(4),
            group: args.group.unwrap_or(8),
            completion: args.completion.unwrap_or(64),
            prompt_tokens,
        }
    }
}

/// Seconds of the wall and of all threads' processors.
#[derive(Clone, Copy)]
struct Clock {
    wall: Instant,
    cpu: ProcessTime,
}

impl Clock {
    fn start() -> Self {
        Clock { wall: Instant::now(), cpu: ProcessTime::now() }
    }
    fn stop(self) -> (f64, f64) {
        (self.wall.elapsed().as_secs_f64(), self.cpu.elapsed().as_secs_f64())
    }
}

/// How busy the machine was over the last minute; none where the system does not tell.
fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

const PHASES: [&str; 6] = ["generate", "fwd_loss", "backward", "logprob_loss", "optimizer", "step"];

/// Times GRPO steps on random prompts.
///
/// # Errors
/// When the checkpoint is refused.
pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    if let Some(name) = &args.shape.model_shape {
        return shape::run(args, name);
    }
    let Some(model) = &args.model else {
        return Err(Failure::refused("--model or --model-shape: one of them must be given"));
    };
    let (sizes, threads) = (Sizes::new(args), args.threads.unwrap_or(1));
    use_threads(threads)?;
    let model = load_model(&checkpoint(model)?)?;
    let vocabulary = model.config().vocab_size as u32;
    let method = methods::parse("grpo_lambda", "").map_err(Failure::broke)?.method;
    let mut engine = Cpu::start(model, Stage::new(AdamWSettings::default())).map_err(Failure::refused)?;
    let base = Address::new(0, Purpose::Rollout);
    let mut times: Vec<[(f64, f64); 6]> = Vec::new();
    for step in 0..args.warmup + args.steps {
        let address = base.step(step as u64);
        let token = |i: usize, j: usize| {
            (address.prompt(1 << 20 | i as u64).bits(j as u64) % u64::from(vocabulary)) as u32
        };
        let length = |i: usize| sizes.prompt_tokens[i % sizes.prompt_tokens.len()];
        let prompts: Vec<Vec<u32>> =
            (0..sizes.prompts).map(|i| (0..length(i)).map(|j| token(i, j)).collect()).collect();
        let ids: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
        let whole = Clock::start();

        let clock = Clock::start();
        let sampling = Sampling { max_new_tokens: sizes.completion, min_new_tokens: 0, temperature: 1.0 };
        // No end token: every response runs to its full length, as in the peers.
        let of = |prompt: usize, response: usize| address.prompt(prompt as u64).response(response as u64);
        let ask = Ask::new(&ids, sizes.group, &[], sampling, &of);
        let sampled = engine.respond(&ask).map_err(Failure::refused)?;
        let generate = clock.stop();

        let clock = Clock::start();
        let mut rows = Rows::new();
        let mut groups = Vec::new();
        for (prompt, responses) in prompts.iter().zip(&sampled) {
            let mut group = Group::default();
            for (i, s) in responses.iter().enumerate() {
                let row: Vec<u32> = prompt.iter().chain(&s.tokens).copied().collect();
                rows.push(&row, prompt.len());
                group.responses.push(Response::graded(s.logps.clone(), f64::from(i % 2 == 0)));
            }
            groups.push(group);
        }
        let (scores, tape) = engine.forward(&rows, Options::default()).map_err(Failure::broke)?;
        let batch = methods::evaluate(method.as_ref(), &groups, &scores.logps);
        let forward = clock.stop();

        let clock = Clock::start();
        engine.backward(tape, &batch.dlogps).map_err(Failure::broke)?;
        let backward = clock.stop();

        let clock = Clock::start();
        engine.step(1e-6).map_err(Failure::broke)?;
        let optimise = clock.stop();

        if step >= args.warmup {
            let both = (forward.0 + backward.0, forward.1 + backward.1);
            times.push([generate, forward, backward, both, optimise, whole.stop()]);
        }
    }
    let median = |phase: usize, pick: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = times.iter().map(|t| pick(&t[phase])).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let tokens = (sizes.prompts * sizes.group * sizes.completion) as f64;
    let table = |pick: fn(&(f64, f64)) -> f64| {
        PHASES
            .iter()
            .enumerate()
            .map(|(i, name)| ((*name).to_owned(), json!(median(i, pick))))
            .collect::<serde_json::Map<_, _>>()
    };
    let lengths: Vec<usize> =
        (0..sizes.prompts).map(|i| sizes.prompt_tokens[i % sizes.prompt_tokens.len()]).collect();
    let rows = || lengths.iter().flat_map(|&p| vec![(p + sizes.completion, sizes.completion); sizes.group]);
    let forward = roofline::forward(engine.model.config(), rows());
    let decode = roofline::decode(engine.model.config(), &lengths, sizes.group, sizes.completion);
    let peak = roofline::peak();
    // Per processor second, so that more threads and other load leave the figure what it is.
    let share = |phase: usize, operations: f64| {
        let rate = operations / median(phase, |t| t.1);
        json!({"gflop": operations / 1e9, "gflop_per_cpu_s": rate / 1e9, "share_of_peak": rate / peak})
    };
    let weights = roofline::decode_weight_bytes(engine.model.config(), sizes.completion);
    let line = json!({
        "impl": "grpo-lambda",
        "threads": threads,
        "steps": args.steps,
        "wall_s": table(|t| t.0),
        "cpu_s": table(|t| t.1),
        "rollout_tok_per_s": tokens / median(0, |t| t.0),
        "peak_rss_mib": peak_rss_mib(),
        "roofline": {
            "peak_gflop_per_s": peak / 1e9,
            "generate": share(0, decode),
            "generate_weight_gb_per_s": weights / 1e9 / median(0, |t| t.0),
            "fwd_loss": share(1, forward),
            "backward": share(2, 2.0 * forward),
        },
        "params": engine.model.parameters().values().map(|t| t.data.len()).sum::<usize>(),
        "loadavg": load_average(),
    });
    print(&format!("{line}\n"))
}
