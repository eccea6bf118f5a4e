//! One step of training on random prompts: what `llm-train info` counts on a dry run and `llm-train bench` times.
//!
//! It is the step of a run: responses sampled by the engine, scored by the reference, credit and loss by the method, gradients in
//! micro-batches, the optimiser. Only prompts and rewards are made up, and there is no end token, so every response has full length: the
//! most that a step can take.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use grpo_lambda::group::{Evidence, EvidenceKind, Group, Response};
use grpo_lambda::learner::{self, Policy, Scored};

use super::device::{Device, DeviceError, Dtype};
use super::dry::{Dry, Work};
use super::ledger::Uses;
use crate::config::Config;
use crate::engine::{Ask, Engine, Gpu, Made, Stage};
use crate::model::{Config as Shape, Error, Options, Rows};
use crate::optim::OptimError;
use crate::policy::pack;
use crate::rng::{Address, Purpose};
use crate::rollout::{RolloutError, Sampled, Sampling};

/// Why a trial failed.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// Sampling failed.
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    /// The model refused its input, or the device failed.
    #[error(transparent)]
    Model(#[from] Error),
    /// The optimiser failed.
    #[error(transparent)]
    Optim(#[from] OptimError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The method asks something of its responses that no device computes.
    #[error(
        "method.name={method} asks for {asked:?}, which only the CPU computes: set another method, or --device cpu"
    )]
    Evidence {
        /// The method.
        method: String,
        /// What it asks for.
        asked: EvidenceKind,
    },
}

/// Seconds of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Phases {
    /// Reading the prompts and drawing a first token.
    pub prefill: f64,
    /// The other tokens.
    pub decode: f64,
    /// Scoring by the reference.
    pub reference: f64,
    /// Log-probabilities with a tape.
    pub forward: f64,
    /// Their gradients.
    pub backward: f64,
    /// The optimiser, and clearing the gradients.
    pub optimiser: f64,
    /// All of it, with credit and loss.
    pub step: f64,
}

/// A step on an engine.
struct Trial<'a, E> {
    engine: &'a mut E,
    config: &'a Config,
    device: Option<&'a Arc<dyn Device>>,
    /// Addresses random numbers.
    number: u64,
    phases: Cell<Phases>,
}

impl<E: Engine> Trial<'_, E> {
    fn wait(&self) -> Result<(), DeviceError> {
        self.device.map_or(Ok(()), |device| device.synchronize())
    }

    /// Seconds since `clock`, all work done.
    fn since(&self, clock: Instant) -> Result<f64, DeviceError> {
        self.wait()?;
        Ok(clock.elapsed().as_secs_f64())
    }

    fn add(&self, change: impl FnOnce(&mut Phases)) {
        let mut phases = self.phases.get();
        change(&mut phases);
        self.phases.set(phases);
    }

    fn options(&self) -> Options {
        Options {
            temperature: self.config.rl.temperature,
            entropy: false,
            checkpoint: self.config.memory.recompute_layers,
        }
    }

    fn respond(
        &self,
        prompts: &[Vec<u32>],
        group: usize,
        new: usize,
    ) -> Result<Vec<Vec<Sampled>>, RolloutError> {
        let ids: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
        let base = Address::new(0, Purpose::Rollout).step(self.number);
        let address = |prompt: usize, response: usize| base.prompt(prompt as u64).response(response as u64);
        let temperature = self.config.rl.temperature;
        let sampling = Sampling { max_new_tokens: new, min_new_tokens: 0, temperature };
        self.engine.respond(&Ask::new(&ids, group, &[], sampling, &address))
    }
}

/// The rows of these responses, in flat order.
fn rows(prompts: &[Vec<u32>], batch: &[Group], part: Range<usize>) -> Rows {
    let flat = batch.iter().zip(prompts).flat_map(|(g, p)| g.responses.iter().map(move |r| (p, r)));
    let mut rows = Rows::new();
    for (prompt, response) in flat.skip(part.start).take(part.len()) {
        let row: Vec<u32> = prompt.iter().chain(&response.tokens).copied().collect();
        rows.push(&row, prompt.len());
    }
    rows
}

impl<E: Engine> Policy for Trial<'_, E> {
    type Prompt = Vec<u32>;
    type Tape = E::Tape;
    type Error = TrialError;

    fn sample(&mut self, prompts: &[Vec<u32>], group: usize) -> Result<Vec<Group>, TrialError> {
        let clock = Instant::now();
        self.respond(prompts, group, 1)?;
        let prefill = self.since(clock)?;
        let clock = Instant::now();
        let sampled = self.respond(prompts, group, self.config.rl.max_new_tokens)?;
        let all = self.since(clock)?;
        self.add(|phases| (phases.prefill, phases.decode) = (prefill, (all - prefill).max(0.0)));
        let response = |(i, s): (usize, Sampled)| Response {
            tokens: s.tokens,
            truncated: s.truncated,
            evidence: Evidence { entropies: Some(s.entropies), ..Evidence::default() },
            ..Response::graded(s.logps, f64::from(i % 2 == 0))
        };
        let group = |responses: Vec<Sampled>| {
            let responses = responses.into_iter().enumerate().map(response).collect();
            Group { responses, ..Group::default() }
        };
        let mut batch: Vec<Group> = sampled.into_iter().map(group).collect();
        if self.config.configured().evidence().contains(&EvidenceKind::RefLogps) {
            let clock = Instant::now();
            let parts: Vec<Rows> =
                self.parts(prompts, &batch).into_iter().map(|part| rows(prompts, &batch, part)).collect();
            let options = self.options();
            let scored = self.engine.reference(&parts, options)?.into_iter().flat_map(|s| s.logps);
            for (response, logps) in batch.iter_mut().flat_map(|g| &mut g.responses).zip(scored) {
                response.ref_logps = Some(logps);
            }
            let seconds = self.since(clock)?;
            self.add(|phases| phases.reference += seconds);
        }
        Ok(batch)
    }

    fn parts(&self, prompts: &[Vec<u32>], batch: &[Group]) -> Vec<Range<usize>> {
        let lengths =
            batch.iter().zip(prompts).flat_map(|(g, p)| g.responses.iter().map(|r| p.len() + r.len()));
        pack(lengths, self.config.memory.micro_batch_tokens)
    }

    fn log_probs(
        &self,
        prompts: &[Vec<u32>],
        batch: &[Group],
        part: Range<usize>,
    ) -> Result<Scored<E::Tape>, TrialError> {
        let clock = Instant::now();
        let (scores, tape) = self.engine.forward(&rows(prompts, batch, part), self.options())?;
        let seconds = self.since(clock)?;
        self.add(|phases| phases.forward += seconds);
        Ok((scores.logps, tape))
    }

    fn backward(&mut self, tape: E::Tape, dlogps: &[Vec<f64>]) -> Result<(), TrialError> {
        let clock = Instant::now();
        self.engine.backward(tape, dlogps)?;
        let seconds = self.since(clock)?;
        self.add(|phases| phases.backward += seconds);
        Ok(())
    }

    fn step(&mut self) -> Result<(), TrialError> {
        let clock = Instant::now();
        self.engine.step(1e-6)?;
        let seconds = self.since(clock)?;
        self.add(|phases| phases.optimiser += seconds);
        Ok(())
    }
}

/// One step of `config` on prompts of this many tokens; `number` is the step's.
///
/// # Errors
/// [`TrialError`].
pub fn step<E: Engine>(
    engine: &mut E,
    config: &Config,
    device: Option<&Arc<dyn Device>>,
    prompt_tokens: usize,
    number: u64,
) -> Result<Phases, TrialError> {
    let configured = config.configured();
    let given = [EvidenceKind::RefLogps, EvidenceKind::Entropies, EvidenceKind::Tokens];
    if let Some(asked) = configured.evidence().iter().find(|kind| !given.contains(kind)) {
        return Err(TrialError::Evidence { method: config.method.clone(), asked: *asked });
    }
    let prompts = prompts(config.rl.prompts_per_step, prompt_tokens, engine.shape().vocab_size, number);
    let clock = Instant::now();
    let mut trial = Trial { engine, config, device, number, phases: Cell::default() };
    learner::iterate(
        &mut trial,
        configured.method.as_ref(),
        &prompts,
        config.rl.group_size,
        config.rl.inner_updates,
    )?;
    let mut phases = trial.phases.get();
    // The prompts were read once more to know how long that takes.
    phases.step = trial.since(clock)? - phases.prefill;
    Ok(phases)
}

/// Random prompts.
fn prompts(n: usize, tokens: usize, vocabulary: usize, number: u64) -> Vec<Vec<u32>> {
    let base = Address::new(1, Purpose::Rollout).step(number);
    let token = |i: usize, t: usize| (base.prompt(i as u64).bits(t as u64) % vocabulary as u64) as u32;
    (0..n).map(|i| (0..tokens).map(|t| token(i, t)).collect()).collect()
}

/// What a step takes, counted before it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Bytes held all the time, by use.
    pub state: Uses,
    /// The most that is held at once, and what it is made of.
    pub peak: (u64, Uses),
    /// The most while responses are sampled.
    pub sampling: u64,
    /// Work of a step; of a recorded step of decoding, once.
    pub work: Work,
}

/// Problems of an evaluation that are decoded together, at most.
const EVALUATED: usize = 128;

/// Counts a step of `config` on a model of this shape, and the sampling of an evaluation.
///
/// # Errors
/// [`TrialError`], when the settings do not fit together.
pub fn predict(
    shape: &Shape,
    config: &Config,
    dtype: Dtype,
    prompt_tokens: usize,
) -> Result<Prediction, TrialError> {
    let dry = Arc::new(Dry::default());
    let device: Arc<dyn Device> = dry.clone();
    let mut engine = made_up(&device, shape, config, dtype, Made::Nothing)?;
    let (_, state) = device.ledger().peak();
    let (evaluated, new) = (config.eval.n.min(EVALUATED), config.rl.max_new_tokens);
    let phases = Cell::default();
    let trial = Trial { engine: &mut engine, config, device: None, number: 0, phases };
    let batches = [(evaluated, 1), (config.rl.prompts_per_step, config.rl.group_size)];
    for (n, group) in batches.into_iter().filter(|(n, _)| *n > 0) {
        trial.respond(&prompts(n, prompt_tokens, shape.vocab_size, 0), group, new)?;
    }
    let (sampling, _) = device.ledger().peak();
    let before = dry.work();
    step(&mut engine, config, Some(&device), prompt_tokens, 0)?;
    let work = dry.work();
    let work = Work {
        launches: work.launches - before.launches,
        products: work.products - before.products,
        operations: work.operations - before.operations,
    };
    Ok(Prediction { state, peak: device.ledger().peak(), sampling, work })
}

/// An engine of this shape with the settings of `config`, on whatever device.
///
/// # Errors
/// When the adapter does not fit the shape, there is too little memory or the device fails.
pub fn made_up(
    device: &Arc<dyn Device>,
    shape: &Shape,
    config: &Config,
    dtype: Dtype,
    made: Made,
) -> Result<Gpu, Error> {
    let stage = Stage { lora: config.lora.clone(), ..Stage::new(config.rl.adam.clone()) };
    let reference = config.configured().evidence().contains(&EvidenceKind::RefLogps);
    Gpu::made_up(device, dtype, shape, stage, reference, made)
}

/// What a card holds beside what is counted: the driver's context, the kernels' machine code, the libraries' workspace, and what rounding
/// to the driver's pages takes. Stated, not measured: 1 GiB.
pub const ALLOWANCE: u64 = 1 << 30;

/// Refuses to begin what will not fit: `predicted` bytes, and [`ALLOWANCE`], in `free`.
///
/// # Errors
/// One line that says what to change.
pub fn memory_check(predicted: u64, free: u64, config: &Config) -> Result<(), String> {
    let wanted = predicted.saturating_add(ALLOWANCE);
    if wanted <= free {
        return Ok(());
    }
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    let half = config.memory.micro_batch_tokens / 2;
    let mut ways = vec![format!("memory.micro_batch_tokens={}", half.max(1))];
    if !config.memory.recompute_layers {
        ways.push("memory.recompute_layers=true".to_owned());
    }
    if config.lora.is_none() {
        ways.push("lora.rank=16".to_owned());
    }
    ways.push(format!("rl.max_new_tokens={}", (config.rl.max_new_tokens / 2).max(1)));
    Err(format!(
        "a step is predicted to take {:.1} GiB and {:.1} GiB for driver and libraries, and {:.1} GiB are free on the card: set {}",
        gib(predicted),
        gib(ALLOWANCE),
        gib(free),
        ways.join(", or ")
    ))
}
