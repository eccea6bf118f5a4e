//! `llm-train bench`: time of a GRPO-λ step on a checkpoint, by the wall and by the processors, as one JSON line.

mod clock;
mod sizes;

use std::path::PathBuf;

use clock::{Clock, Seconds, Stopwatch};
use grpo_lambda::methods::{self, Method};
use grpo_lambda_decoder::optim::AdamWSettings;
use serde_json::{Map, Value, json};

use super::{Command, Failure, checkpoint, count, load_model, print, use_threads, whole};
use grpo_lambda_trainer::plan::memory::peak_rss_mib;
use grpo_lambda_trainer::plan::roofline;
use grpo_lambda_trainer::plan::synthetic::{AlternatingRewards, RATE};
use grpo_lambda_trainer::step::engine::{CpuEngine, TrainingSetup};
use grpo_lambda_trainer::step::{PolicyError, Trainer};

/// Arguments of `bench`.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchArgs {
    /// Checkpoint directory, or a run directory for its latest
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Worker threads; 0: as many as the machine has
    #[arg(long, default_value_t = 1, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub threads: usize,
    /// Steps measured
    #[arg(long, default_value_t = 5, value_parser = count, allow_negative_numbers = true)]
    pub steps: usize,
    /// Steps before measuring
    #[arg(long, default_value_t = 2, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub warmup: usize,
    /// Prompts per step
    #[arg(long, default_value_t = 4, value_parser = count, allow_negative_numbers = true)]
    pub prompts: usize,
    /// Responses per prompt
    #[arg(long, default_value_t = 8, value_parser = count, allow_negative_numbers = true)]
    pub group: usize,
    /// Tokens per response; every response has full length
    #[arg(long, default_value_t = 64, value_parser = count, allow_negative_numbers = true)]
    pub completion: usize,
    /// Tokens of the prompts, in turn; by default those of the Python peers' prompts
    #[arg(long, value_delimiter = ',', default_value = "10,43,12", value_parser = count, allow_negative_numbers = true)]
    pub prompt_tokens: Vec<usize>,
}

/// Seconds of a step, by phase.
struct Times {
    generate: Seconds,
    /// Log-probabilities, credit and loss.
    fwd_loss: Seconds,
    backward: Seconds,
    optimizer: Seconds,
    step: Seconds,
}

impl Times {
    fn phases(&self) -> [(&'static str, Seconds); 6] {
        [
            ("generate", self.generate),
            ("fwd_loss", self.fwd_loss),
            ("backward", self.backward),
            ("logprob_loss", self.fwd_loss.plus(self.backward)),
            ("optimizer", self.optimizer),
            ("step", self.step),
        ]
    }
}

impl Command for BenchArgs {
    /// Times GRPO steps on random prompts.
    fn run(&self) -> Result<(), Failure> {
        use_threads(self.threads)?;
        let model = load_model(&checkpoint(&self.model)?)?;
        let method = methods::parse("grpo_lambda", "").map_err(Failure::broke)?.method;
        let mut engine =
            CpuEngine::new(model, TrainingSetup::new(AdamWSettings::default())).map_err(Failure::refused)?;
        let mut times = Vec::new();
        for step in 0..self.warmup + self.steps {
            let took = timed(&mut engine, self, method.as_ref(), step as u64).map_err(failed)?;
            if step >= self.warmup {
                times.push(took);
            }
        }
        print(&format!("{}\n", line(self, &engine, &times)))
    }
}

fn failed(error: PolicyError) -> Failure {
    match error {
        PolicyError::Rollout(e) => Failure::refused(e),
        other => Failure::broke(other),
    }
}

/// One step.
fn timed(
    engine: &mut CpuEngine,
    sizes: &BenchArgs,
    method: &dyn Method,
    number: u64,
) -> Result<Times, PolicyError> {
    let prompts = sizes.random_prompts(engine.model.config().vocab_size, number);
    let settings = sizes.settings();
    let (whole, watch) = (Clock::start(), Stopwatch::start());
    let trainer = Trainer { settings: &settings, method, rewards: &AlternatingRewards, observer: &watch };
    let rollout = trainer.sample(engine, prompts, sizes.group, number)?;
    trainer.step(engine, &rollout, RATE)?;
    let step = whole.read();
    let (generate, backward, optimizer) = (watch.generate.get(), watch.backward.get(), watch.optimizer.get());
    let fwd_loss = step.minus(generate.plus(backward).plus(optimizer));
    Ok(Times { generate, fwd_loss, backward, optimizer, step })
}

/// How busy the machine was over the last minute; none where the system does not tell.
fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

fn line(sizes: &BenchArgs, engine: &CpuEngine, times: &[Times]) -> Value {
    let of = |pick: fn(&Times) -> f64| median(times.iter().map(pick));
    let generate = of(|t| t.generate.wall);
    let tokens = (sizes.prompts * sizes.group * sizes.completion) as f64;
    let (shape, lengths) = (engine.model.config(), sizes.lengths());
    // A prompt is computed once for its group.
    let rows = sizes.rows();
    let forward = roofline::pass(shape, rows.computed() as f64, tokens, rows.pairs());
    let decode = roofline::decode(shape, &lengths, sizes.group, sizes.completion);
    let peak = roofline::peak();
    // Per processor second, so that more threads and other load leave the figure what it is.
    let share = |cpu: f64, operations: f64| {
        let rate = operations / cpu;
        json!({"gflop": operations / 1e9, "gflop_per_cpu_s": rate / 1e9, "share_of_peak": rate / peak})
    };
    json!({
        "impl": "grpo-lambda",
        "threads": sizes.threads,
        "steps": sizes.steps,
        "wall_s": medians(times, |s| s.wall),
        "cpu_s": medians(times, |s| s.cpu),
        "rollout_tok_per_s": tokens / generate,
        "peak_rss_mib": peak_rss_mib(),
        "roofline": {
            "peak_gflop_per_s": peak / 1e9,
            "generate": share(of(|t| t.generate.cpu), decode),
            "generate_weight_gb_per_s": roofline::decode_weight_bytes(shape, sizes.completion) / 1e9 / generate,
            "fwd_loss": share(of(|t| t.fwd_loss.cpu), forward),
            "backward": share(of(|t| t.backward.cpu), 2.0 * forward),
        },
        "params": engine.model.parameters().values().map(|t| t.data.len()).sum::<usize>(),
        "loadavg": load_average(),
    })
}

/// The median of every phase.
fn medians(times: &[Times], pick: fn(Seconds) -> f64) -> Map<String, Value> {
    let Some(first) = times.first() else { return Map::new() };
    let names = first.phases().into_iter().enumerate();
    let of = |i: usize| median(times.iter().map(|t| pick(t.phases()[i].1)));
    names.map(|(i, (name, _))| (name.to_owned(), json!(of(i)))).collect()
}

/// The median; NaN for no values.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
