//! Steps of GRPO-λ on a checkpoint, by the wall and by the processors.

use std::cell::Cell;
use std::path::Path;
use std::time::Instant;

use cpu_time::ProcessTime;
use grpo_lambda::methods::{self, Method};
use grpo_lambda_decoder::optim::AdamWSettings;
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::rollout::Sampling;
use grpo_lambda_gpu::DeviceError;
use grpo_lambda_grade::Gold;
use serde_json::{Map, Value, json};

use super::super::{Failure, checkpoint, load_model, print, use_threads};
use super::{BenchArgs, median};
use crate::config::MemoryConfig;
use crate::plan::memory::peak_rss_mib;
use crate::plan::roofline;
use crate::plan::synthetic::{AlternatingRewards, RATE};
use crate::step::engine::{Cpu, Stage};
use crate::step::{Exercise, Observer, Phase, PolicyError, StepSettings, Trainer};

/// Prompts, responses to each, and lengths of a step.
struct Sizes {
    prompts: usize,
    group: usize,
    completion: usize,
    /// Of the prompts, in turn.
    prompt_tokens: Vec<usize>,
}

impl Sizes {
    fn new(args: &BenchArgs) -> Self {
        let given = &args.prompt_tokens;
        Sizes {
            prompts: args.prompts.unwrap_or(4),
            group: args.group.unwrap_or(8),
            completion: args.completion.unwrap_or(64),
            prompt_tokens: if given.is_empty() { vec![10, 43, 12] } else { given.clone() },
        }
    }

    fn lengths(&self) -> Vec<usize> {
        self.prompt_tokens.iter().copied().cycle().take(self.prompts).collect()
    }

    /// Random prompts, whose answers nobody reads.
    fn exercises(&self, vocabulary: usize, step: u64) -> Vec<Exercise> {
        let address = Address::new(0, Purpose::Rollout).step(step);
        let token =
            |i: u64, j: usize| (address.prompt(1 << 20 | i).bits(j as u64) % vocabulary as u64) as u32;
        let exercise = |(number, len): (u64, usize)| Exercise {
            prompt: (0..len).map(|j| token(number, j)).collect(),
            gold: Gold::from(0),
            number,
        };
        (0..).zip(self.lengths()).map(exercise).collect()
    }

    /// One pass over the whole batch. There is no end token: every response runs to its full length, as in the peers.
    fn settings(&self) -> StepSettings {
        let sampling = Sampling { max_new_tokens: self.completion, min_new_tokens: 0, temperature: 1.0 };
        StepSettings {
            sampling,
            eos: Vec::new(),
            seed: 0,
            inner_updates: 1,
            memory: MemoryConfig { micro_batch_tokens: usize::MAX, recompute_layers: false },
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

/// Where the time of a step went.
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

/// Times GRPO steps on random prompts.
///
/// # Errors
/// When the checkpoint is refused.
pub(super) fn run(args: &BenchArgs, model: &Path) -> Result<(), Failure> {
    let (sizes, threads) = (Sizes::new(args), args.threads.unwrap_or(1));
    use_threads(threads)?;
    let model = load_model(&checkpoint(model)?)?;
    let method = methods::parse("grpo_lambda", "").map_err(Failure::broke)?.method;
    let mut engine = Cpu::start(model, Stage::new(AdamWSettings::default())).map_err(Failure::refused)?;
    let mut times = Vec::new();
    for step in 0..args.warmup + args.steps {
        let took = timed(&mut engine, &sizes, method.as_ref(), step as u64).map_err(failed)?;
        if step >= args.warmup {
            times.push(took);
        }
    }
    print(&format!("{}\n", line(args, threads, &sizes, &engine, &times)))
}

fn failed(error: PolicyError) -> Failure {
    match error {
        PolicyError::Rollout(e) => Failure::refused(e),
        other => Failure::broke(other),
    }
}

/// One step.
fn timed(engine: &mut Cpu, sizes: &Sizes, method: &dyn Method, number: u64) -> Result<Times, PolicyError> {
    let exercises = sizes.exercises(engine.model.config().vocab_size, number);
    let settings = sizes.settings();
    let (whole, watch) = (Clock::start(), Stopwatch::start());
    let trainer = Trainer { settings: &settings, method, rewards: &AlternatingRewards, observer: &watch };
    let rollout = trainer.sample(engine, exercises, sizes.group, number)?;
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

fn line(args: &BenchArgs, threads: usize, sizes: &Sizes, engine: &Cpu, times: &[Times]) -> Value {
    let of = |pick: fn(&Times) -> f64| median(times.iter().map(pick));
    let generate = of(|t| t.generate.wall);
    let tokens = (sizes.prompts * sizes.group * sizes.completion) as f64;
    let (shape, lengths) = (engine.model.config(), sizes.lengths());
    let rows = lengths.iter().flat_map(|&p| vec![(p + sizes.completion, sizes.completion); sizes.group]);
    let forward = roofline::forward(shape, rows);
    let decode = roofline::decode(shape, &lengths, sizes.group, sizes.completion);
    let peak = roofline::peak();
    // Per processor second, so that more threads and other load leave the figure what it is.
    let share = |cpu: f64, operations: f64| {
        let rate = operations / cpu;
        json!({"gflop": operations / 1e9, "gflop_per_cpu_s": rate / 1e9, "share_of_peak": rate / peak})
    };
    json!({
        "impl": "grpo-lambda",
        "threads": threads,
        "steps": args.steps,
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
