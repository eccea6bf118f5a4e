//! `llm-train bench`: time of a GRPO-λ step on a checkpoint, by the wall and by the processors, as one JSON line.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Instant;

use cpu_time::ProcessTime;
use grpo_lambda::methods::{self, Method};
use grpo_lambda_decoder::generate::SamplingParams;
use grpo_lambda_decoder::model::Rows;
use grpo_lambda_decoder::optim::AdamWSettings;
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_gpu::{DeviceError, StatePlace};
use grpo_lambda_grade::Gold;
use serde_json::{Map, Value, json};

use super::{Command, Failure, checkpoint, count, load_model, print, use_threads, whole};
use grpo_lambda_trainer::config::MemoryConfig;
use grpo_lambda_trainer::plan::memory::peak_rss_mib;
use grpo_lambda_trainer::plan::roofline;
use grpo_lambda_trainer::plan::synthetic::{AlternatingRewards, RATE};
use grpo_lambda_trainer::step::engine::{CpuEngine, TrainingSetup};
use grpo_lambda_trainer::step::{Observer, Phase, PolicyError, StepContext, StepSettings, TrainingPrompt};

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
    let context =
        StepContext { observer: &watch, ..StepContext::new(&settings, method, &AlternatingRewards) };
    let rollout = context.sample(engine, prompts, sizes.group, number)?;
    context.step(engine, &rollout, RATE)?;
    let step = whole.read();
    let (generate, backward, optimizer) = (watch.generate.get(), watch.backward.get(), watch.optimizer.get());
    let fwd_loss = step.minus(generate.plus(backward).plus(optimizer));
    Ok(Times { generate, fwd_loss, backward, optimizer, step })
}

/// The machine's load over the last minute; `None` if the system does not tell.
fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

fn line(sizes: &BenchArgs, engine: &CpuEngine, times: &[Times]) -> Value {
    let median_of = |pick: fn(&Times) -> f64| median(times.iter().map(pick));
    let generate = median_of(|t| t.generate.wall);
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
            "generate": share(median_of(|t| t.generate.cpu), decode),
            "generate_weight_gb_per_s": roofline::decode_weight_bytes(shape, sizes.completion) / 1e9 / generate,
            "fwd_loss": share(median_of(|t| t.fwd_loss.cpu), forward),
            "backward": share(median_of(|t| t.backward.cpu), 2.0 * forward),
        },
        "params": engine.model.parameters().values().map(|t| t.data.len()).sum::<usize>(),
        "loadavg": load_average(),
    })
}

/// The median of every phase.
fn medians(times: &[Times], pick: fn(Seconds) -> f64) -> Map<String, Value> {
    let Some(first) = times.first() else { return Map::new() };
    let names = first.phases().into_iter().enumerate();
    let median_phase = |i: usize| median(times.iter().map(|t| pick(t.phases()[i].1)));
    names.map(|(i, (name, _))| (name.to_owned(), json!(median_phase(i)))).collect()
}

/// The median; NaN for no values.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl BenchArgs {
    fn lengths(&self) -> Vec<usize> {
        self.prompt_tokens.iter().copied().cycle().take(self.prompts).collect()
    }

    /// Random prompts, whose answers nobody reads.
    fn random_prompts(&self, vocabulary: usize, step: u64) -> Vec<TrainingPrompt> {
        let address = Address::new(0, Purpose::Rollout).step(step);
        let token =
            |i: u64, j: usize| (address.prompt(1 << 20 | i).bits(j as u64) % vocabulary as u64) as u32;
        let prompt = |(number, len): (u64, usize)| TrainingPrompt {
            tokens: (0..len).map(|j| token(number, j)).collect(),
            gold: Gold::from(0),
            number,
        };
        (0..).zip(self.lengths()).map(prompt).collect()
    }

    /// The rows of a pass over the whole batch; which tokens they are does not matter.
    fn rows(&self) -> Rows {
        let mut rows = Rows::new();
        for len in self.lengths() {
            rows.share(&vec![0; len - 1]);
            (0..self.group).for_each(|_| rows.push(&vec![0; 1 + self.completion], 1));
        }
        rows
    }

    /// One pass over the whole batch. There is no end token: every response runs to its full length, as in the peers.
    fn settings(&self) -> StepSettings {
        let sampling =
            SamplingParams { max_new_tokens: self.completion, min_new_tokens: 0, temperature: 1.0 };
        StepSettings {
            sampling,
            eos: Vec::new(),
            stops: None,
            seed: 0,
            sets: None,
            inner_updates: 1,
            memory: MemoryConfig {
                micro_batch_tokens: usize::MAX,
                recompute_layers: false,
                optimiser: StatePlace::Device,
                slots: None,
            },
            reference: false,
            evidence: None,
            max_logp_error: f64::INFINITY,
        }
    }
}

/// Seconds of the wall and of all threads' processors.
#[derive(Clone, Copy, Debug, Default)]
struct Seconds {
    wall: f64,
    cpu: f64,
}

impl Seconds {
    fn plus(self, other: Seconds) -> Seconds {
        Seconds { wall: self.wall + other.wall, cpu: self.cpu + other.cpu }
    }

    fn minus(self, other: Seconds) -> Seconds {
        Seconds { wall: self.wall - other.wall, cpu: self.cpu - other.cpu }
    }
}

/// Since it was started.
#[derive(Clone, Copy)]
struct Clock {
    wall: Instant,
    cpu: ProcessTime,
}

impl Clock {
    fn start() -> Self {
        Clock { wall: Instant::now(), cpu: ProcessTime::now() }
    }

    fn read(self) -> Seconds {
        Seconds { wall: self.wall.elapsed().as_secs_f64(), cpu: self.cpu.elapsed().as_secs_f64() }
    }
}

/// The time of the phases of a step that stand for themselves.
struct Stopwatch {
    phase: Cell<Clock>,
    generate: Cell<Seconds>,
    backward: Cell<Seconds>,
    optimizer: Cell<Seconds>,
}

impl Stopwatch {
    fn start() -> Self {
        let none = || Cell::new(Seconds::default());
        Stopwatch { phase: Cell::new(Clock::start()), generate: none(), backward: none(), optimizer: none() }
    }
}

impl Observer for Stopwatch {
    fn begin(&self, _: Phase) {
        self.phase.set(Clock::start());
    }

    fn end(&self, phase: Phase) -> Result<(), DeviceError> {
        let took = match phase {
            Phase::Sample => &self.generate,
            Phase::Backward => &self.backward,
            Phase::Optimiser => &self.optimizer,
            Phase::Reference | Phase::Evidence | Phase::Forward => return Ok(()),
        };
        took.set(took.get().plus(self.phase.get().read()));
        Ok(())
    }
}
