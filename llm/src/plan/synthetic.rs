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
use grpo_lambda_decoder::drift::Drift;
use grpo_lambda_decoder::model::{Config as Shape, Error, Options, Rows};
use grpo_lambda_decoder::optim::OptimError;
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::rollout::{Ask, RolloutError, Sampled, Sampling};
use grpo_lambda_gpu::dry::{Dry, Work};
use grpo_lambda_gpu::ledger::Uses;
use grpo_lambda_gpu::{Device, DeviceError, Dtype};

use crate::config::Config;
use crate::eval::TOGETHER as EVALUATED;
use crate::problems::Longest;
use crate::step::engine::{Engine, Gpu, Made, Stage};
use crate::step::micro_batch;

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

/// Seconds of a step, and how its two computations of a log-probability agree.
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
    /// How far the trainer's log-probabilities are from the sampler's.
    pub drift: Drift,
}

/// A step on an engine.
struct Trial<'a, E> {
    engine: &'a mut E,
    config: &'a Config,
    device: Option<&'a Arc<dyn Device>>,
    /// Addresses random numbers.
    number: u64,
    phases: Cell<Phases>,
    /// The most that was held until responses were there; the ledger's peak begins again there. None where it is not to.
    sampling: Option<(u64, Uses)>,
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
        let ids = ids(prompts);
        let base = Address::new(0, Purpose::Rollout).step(self.number);
        let address = |prompt: usize, response: usize| base.prompt(prompt as u64).response(response as u64);
        let temperature = self.config.rl.temperature;
        let sampling = Sampling { max_new_tokens: new, min_new_tokens: 0, temperature };
        self.engine.respond(&Ask::new(&ids, group, &[], sampling, &address))
    }
}

/// Token ids of the prompts.
fn ids(prompts: &[Vec<u32>]) -> Vec<&[u32]> {
    prompts.iter().map(Vec::as_slice).collect()
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
        if let (Some(peak), Some(device)) = (&mut self.sampling, self.device) {
            *peak = device.ledger().peak();
            device.ledger().forget_peak();
        }
        let response = |(i, s): (usize, Sampled)| Response {
            tokens: s.tokens,
            truncated: s.truncated,
            evidence: Evidence { entropies: Some(s.entropies), ..Evidence::default() },
            ..Response::graded(s.logps, f64::from(i % 2 == 0))
        };
        let group = |responses: Vec<Sampled>| {
            let responses = responses.into_iter().enumerate().map(response).collect();
            Group { responses }
        };
        let mut batch: Vec<Group> = sampled.into_iter().map(group).collect();
        if self.config.configured().evidence().contains(&EvidenceKind::RefLogps) {
            let clock = Instant::now();
            let (budget, options) = (self.config.memory.micro_batch_tokens, self.options());
            micro_batch::refer(self.engine, &ids(prompts), &mut batch, budget, options)?;
            let seconds = self.since(clock)?;
            self.add(|phases| phases.reference += seconds);
        }
        Ok(batch)
    }

    fn parts(&self, prompts: &[Vec<u32>], batch: &[Group]) -> Vec<Range<usize>> {
        micro_batch::parts(&ids(prompts), batch, self.config.memory.micro_batch_tokens)
    }

    fn log_probs(
        &self,
        prompts: &[Vec<u32>],
        batch: &[Group],
        part: Range<usize>,
    ) -> Result<Scored<E::Tape>, TrialError> {
        let clock = Instant::now();
        let (scores, tape) =
            self.engine.forward(&micro_batch::rows(&ids(prompts), batch, part.clone()), self.options())?;
        let seconds = self.since(clock)?;
        let responses = batch.iter().flat_map(|g| &g.responses).skip(part.start);
        self.add(|phases| {
            phases.forward += seconds;
            responses.zip(&scores.logps).for_each(|(r, logps)| phases.drift.add(&r.old_logps, logps));
        });
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
    let phases = Cell::default();
    run(&mut Trial { engine, config, device, number, phases, sampling: None }, prompt_tokens)
}

fn run<E: Engine>(trial: &mut Trial<'_, E>, prompt_tokens: usize) -> Result<Phases, TrialError> {
    let config = trial.config;
    let (configured, rl) = (config.configured(), &config.rl);
    let given = [EvidenceKind::RefLogps, EvidenceKind::Entropies, EvidenceKind::Tokens];
    if let Some(asked) = configured.evidence().iter().find(|kind| !given.contains(kind)) {
        return Err(TrialError::Evidence { method: config.method.clone(), asked: *asked });
    }
    let vocabulary = trial.engine.shape().vocab_size;
    let prompts = prompts(rl.prompts_per_step, prompt_tokens, vocabulary, trial.number);
    let clock = Instant::now();
    learner::iterate(trial, configured.method.as_ref(), &prompts, rl.group_size, rl.inner_updates)?;
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
    /// The most that is held while responses are sampled, in training or in an evaluation, and what it is made of.
    pub sampling: (u64, Uses),
    /// The most that is held in an update.
    pub update: (u64, Uses),
    /// The most that is held in a supervised step; none without supervised learning.
    pub supervised: Option<(u64, Uses)>,
    /// Operations of a step of training.
    pub operations: f64,
    /// Work of one step of decoding.
    pub decode: Work,
}

impl Prediction {
    /// The most that is held at once, and what it is made of.
    pub fn peak(&self) -> &(u64, Uses) {
        let others = [Some(&self.update), self.supervised.as_ref()];
        others
            .into_iter()
            .flatten()
            .fold(&self.sampling, |most, one| if one.0 >= most.0 { one } else { most })
    }
}

/// Counts a step of `config` on a model of this shape, the sampling of an evaluation and, where examples have a length, a supervised step.
///
/// # Errors
/// [`TrialError`], when the settings do not fit together.
pub fn predict(
    shape: &Shape,
    config: &Config,
    dtype: Dtype,
    longest: Longest,
) -> Result<Prediction, TrialError> {
    let prompt_tokens = longest.prompt;
    let supervised = imitate(shape, config, dtype, longest.example)?;
    let dry = Arc::new(Dry::default());
    let device: Arc<dyn Device> = dry.clone();
    let mut engine = made_up(&device, shape, config, dtype, Made::Nothing)?;
    let (_, state) = device.ledger().peak();
    let (rl, phases) = (&config.rl, Cell::default());
    let sampling = Some((0, Uses::new()));
    let mut trial = Trial { engine: &mut engine, config, device: Some(&device), number: 0, phases, sampling };
    if config.eval.n > 0 {
        let evaluated = prompts(config.eval.n.min(EVALUATED), prompt_tokens, shape.vocab_size, 0);
        trial.respond(&evaluated, 1, rl.max_new_tokens)?;
    }
    // Two tokens take one step more than one: none is recorded yet.
    let trained = prompts(rl.prompts_per_step, prompt_tokens, shape.vocab_size, 0);
    let work_of = |new: usize| {
        let before = dry.work();
        trial.respond(&trained, rl.group_size, new)?;
        Ok::<_, TrialError>(difference(dry.work(), before))
    };
    let decode = difference(work_of(2)?, work_of(1)?);
    let before = dry.work();
    run(&mut trial, prompt_tokens)?;
    let operations = difference(dry.work(), before).operations;
    let sampling = trial.sampling.take().unwrap_or_default();
    Ok(Prediction { state, sampling, update: device.ledger().peak(), supervised, operations, decode })
}

/// Counts a supervised step on examples of this many tokens, as many together as a micro-batch takes.
fn imitate(
    shape: &Shape,
    config: &Config,
    dtype: Dtype,
    example: usize,
) -> Result<Option<(u64, Uses)>, TrialError> {
    if config.sft.steps == 0 || example < 2 {
        return Ok(None);
    }
    let device: Arc<dyn Device> = Arc::new(Dry::default());
    let stage = Stage { lora: config.lora.clone(), ..Stage::new(config.sft.adam.clone()) };
    let mut engine = Gpu::made_up(&device, dtype, shape, stage, false, Made::Nothing)?;
    let together = (config.memory.micro_batch_tokens / example).clamp(1, config.sft.batch);
    let mut rows = Rows::new();
    (0..together).for_each(|_| rows.push(&vec![0; example], 1));
    let options = Options { checkpoint: config.memory.recompute_layers, ..Options::default() };
    let (scores, tape) = engine.forward(&rows, options)?;
    engine.backward(tape, &scores.logps)?;
    engine.step(1e-6)?;
    Ok(Some(device.ledger().peak()))
}

fn difference(after: Work, before: Work) -> Work {
    Work {
        launches: after.launches - before.launches,
        products: after.products - before.products,
        operations: after.operations - before.operations,
    }
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

/// Refuses to begin what will not fit: what is predicted, and [`ALLOWANCE`], in `free` bytes.
///
/// # Errors
/// One line that says what to change.
pub fn memory_check(predicted: &Prediction, free: u64, config: &Config) -> Result<(), String> {
    let (peak, _) = predicted.peak();
    if peak.saturating_add(ALLOWANCE) <= free {
        return Ok(());
    }
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    let rl = &config.rl;
    let mut ways = Vec::new();
    // What decides is named first.
    let responses = rl.prompts_per_step * rl.group_size;
    let (evaluated, half) = (config.eval.n.min(EVALUATED), |n: usize| (n / 2).max(1));
    let sampling = *peak == predicted.sampling.0;
    let stage = if sampling {
        "sampling"
    } else if *peak == predicted.update.0 {
        "an update"
    } else {
        "a supervised step"
    };
    if sampling {
        if evaluated > responses {
            ways.push(format!("eval.n={responses}"));
        }
        ways.push(format!("rl.max_new_tokens={}", half(rl.max_new_tokens)));
    } else {
        if !config.memory.recompute_layers {
            ways.push("memory.recompute_layers=true".to_owned());
        }
        ways.push(format!("memory.micro_batch_tokens={}", half(config.memory.micro_batch_tokens)));
    }
    if config.lora.is_none() {
        ways.push("lora.rank=16 (an adapter instead of all weights)".to_owned());
    }
    Err(format!(
        "the card has {:.1} GiB free; {} is predicted to take {:.1} GiB, and {:.1} GiB are for driver and libraries: set {}",
        gib(free),
        stage,
        gib(*peak),
        gib(ALLOWANCE),
        ways.join(", or ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: Longest = Longest { prompt: 7, example: 0 };

    fn config(more: &[&str]) -> Config {
        let base = ["rl.prompts_per_step=3", "rl.group_size=4", "rl.max_new_tokens=9", "method.name=grpo"];
        Config::resolve("tiny", &base).and_then(|config| config.with(more)).expect("accepted")
    }

    fn predicted(more: &[&str]) -> Prediction {
        let shape = Shape::qwen2(61, 32, 2, 4, 2);
        predict(&shape, &config(more), Dtype::Bf16, PROMPT).expect("counted")
    }

    #[test]
    fn long_demonstrations_are_counted_where_they_are_imitated() {
        let shape = Shape::qwen2(61, 32, 2, 4, 2);
        let peak = |example: usize, more: &[&str]| {
            let longest = Longest { example, ..PROMPT };
            predict(&shape, &config(more), Dtype::Bf16, longest).expect("counted")
        };
        let few = ["eval.n=1", "sft.batch=2"];
        assert_eq!(peak(0, &few).supervised, None);
        assert_eq!(peak(900, &["sft.steps=0"]).supervised, None);
        let (short, long) = (peak(30, &few), peak(900, &few));
        let of = |p: &Prediction| p.supervised.as_ref().expect("counted").0;
        assert!(of(&short) < short.update.0 && of(&long) > long.update.0);
        assert_eq!(long.peak().0, of(&long));
        let line = memory_check(&long, 0, &config(&few)).expect_err("refused");
        assert!(line.contains("a supervised step") && line.contains("memory.micro_batch_tokens"), "{line}");
    }

    #[test]
    fn a_reference_is_counted_when_the_method_asks_for_one_and_none_with_an_adapter() {
        let uses = |more: &[&str]| predicted(more).state.get("reference").copied().unwrap_or(0);
        let weights = predicted(&[]).state["weights"];
        assert_eq!(uses(&[]), 0);
        assert_eq!(uses(&["method.beta=0.04"]), weights);
        assert_eq!(uses(&["method.beta=0.04", "lora.rank=2"]), 0);
    }

    #[test]
    fn settings_move_the_memory_they_are_said_to_move() {
        // No evaluation larger than a rollout, and every row in one pass.
        let base = predicted(&["eval.n=1"]);
        assert!(base.update.0 > base.state.values().sum());
        let smaller = predicted(&["eval.n=1", "memory.micro_batch_tokens=16"]);
        assert!(smaller.update.0 < base.update.0 && smaller.sampling.0 == base.sampling.0);
        let again = predicted(&["eval.n=1", "memory.recompute_layers=true"]);
        assert!(again.update.0 < base.update.0 && again.operations > base.operations);
        let shorter = predicted(&["eval.n=1", "rl.max_new_tokens=3"]);
        assert!(shorter.sampling.0 < base.sampling.0);
        let evaluated = predicted(&["eval.n=100"]);
        assert!(evaluated.sampling.0 > base.sampling.0 && evaluated.update.0 == base.update.0);
        let adapter = predicted(&["eval.n=1", "lora.rank=2"]);
        assert!(adapter.peak().0 < base.peak().0 / 2);
        assert!(adapter.decode.products > base.decode.products);
    }

    /// Per layer: two norms, queries and keys turned, attention, SwiGLU and four products; embedding, last norm, head, and two kernels of the
    /// sampler.
    #[test]
    fn a_step_of_decoding_is_counted_launch_by_launch() {
        let decode = predicted(&[]).decode;
        assert_eq!((decode.launches, decode.products), (2 * 5 + 4, 2 * 4 + 1));
    }

    #[test]
    fn a_method_whose_questions_only_the_cpu_answers_is_refused() {
        let shape = Shape::qwen2(61, 32, 2, 4, 2);
        let all = grpo_lambda::methods::REGISTRY.iter().map(|m| format!("method.name={}", m.name));
        let found: Vec<_> = all
            .filter_map(|name| Config::resolve("tiny", &[name.as_str()]).ok())
            .map(|config| predict(&shape, &config, Dtype::F32, PROMPT))
            .collect();
        assert!(found.iter().any(|f| matches!(f, Err(TrialError::Evidence { .. }))));
        assert!(found.iter().filter(|f| f.is_ok()).count() > 3);
        let other =
            |f: &&Result<Prediction, TrialError>| !matches!(f, Ok(_) | Err(TrialError::Evidence { .. }));
        assert!(found.iter().find(other).is_none());
    }

    #[test]
    fn what_does_not_fit_is_refused_in_one_line_that_names_what_decides() {
        let fits = |more: &[&str], free| memory_check(&predicted(more), free, &config(more));
        let base = predicted(&["eval.n=1"]);
        let enough = base.peak().0 + ALLOWANCE;
        assert_eq!(fits(&["eval.n=1"], enough), Ok(()));
        let line = fits(&["eval.n=1"], enough - 1).expect_err("refused");
        assert!(line.contains("an update") && line.contains("memory.recompute_layers=true"), "{line}");
        assert!(line.contains("memory.micro_batch_tokens=4096") && line.contains("lora.rank=16"), "{line}");
        let many = ["eval.n=100", "lora.rank=2", "memory.micro_batch_tokens=16"];
        let line = fits(&many, 0).expect_err("refused");
        assert!(line.contains("sampling") && line.contains("eval.n=12") && !line.contains("lora"), "{line}");
        assert!(!line.contains('\n'));
    }
}
