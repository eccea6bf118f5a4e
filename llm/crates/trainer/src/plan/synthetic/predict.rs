//! Memory and work of a step, counted on a device that computes nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use grpo_lambda_decoder::model::ModelConfig as Shape;
use grpo_lambda_decoder::slots;
use grpo_lambda_gpu::dry::{Ceilings, Dry, Work};
use grpo_lambda_gpu::ledger::Uses;
use grpo_lambda_gpu::{Device, DeviceError, Dtype};

use super::step::{RATE, generate, prompts, run, synthetic_engine};
use super::{Result, SyntheticStepError};
use crate::config::Config;
use crate::eval::{QUEUE, eval_slots};
use crate::problems::MaxLengths;
use crate::step::engine::{Engine, GpuEngine, SyntheticWeights, TrainingSetup};
use crate::step::sft::{self, Example};
use crate::step::{Observer, Phase};

/// Memory and operations of a step, counted before it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct StepPrediction {
    /// Bytes held all the time, by use.
    pub state: Uses,
    /// The most that is held while responses are sampled, in training or in an evaluation, and what it is made of; the state alone if a server
    /// samples.
    pub sampling: (u64, Uses),
    /// The most that is held in an update.
    pub update: (u64, Uses),
    /// The most that is held in a supervised step; none without supervised learning.
    pub supervised: Option<(u64, Uses)>,
    /// Work of a supervised step.
    pub supervised_work: Work,
    /// Bytes of the optimiser's state in the machine's memory.
    pub host: u64,
    /// Work of one step of decoding, with rows of their mean length.
    pub decode: Work,
    /// Work of a step of training.
    pub work: StepWork,
    /// Its seconds by phase and kernel; cuBLAS's products are one, and so are copies and clears.
    pub kernels: BTreeMap<(&'static str, &'static str), f64>,
    /// The rates that its seconds are computed with.
    pub ceilings: Ceilings,
}

/// Work of a step of training, by phase. That of a reference is counted, and that of other extra inputs, such as completions, is not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepWork {
    /// Reading the prompts and drawing a first token.
    pub prefill: Work,
    /// The other tokens, every response at its limit.
    pub decode: Work,
    /// Scoring by the reference.
    pub reference: Work,
    /// Log-probabilities with a tape.
    pub forward: Work,
    /// Their gradients, with the layers computed again.
    pub backward: Work,
    /// The optimiser, and clearing the gradients.
    pub optimiser: Work,
}

impl StepWork {
    /// Every phase with its name, in the order in which they begin.
    pub fn phases(&self) -> [(&'static str, Work); 6] {
        [
            ("prefill", self.prefill),
            ("decode", self.decode),
            ("reference", self.reference),
            ("forward", self.forward),
            ("backward", self.backward),
            ("optimiser", self.optimiser),
        ]
    }

    /// All phases.
    pub fn total(&self) -> Work {
        self.phases().into_iter().fold(Work::default(), |sum, (_, work)| sum + work)
    }
}

impl StepPrediction {
    /// The most that is held at once, and what it is made of.
    pub fn peak(&self) -> &(u64, Uses) {
        let others = [Some(&self.update), self.supervised.as_ref()];
        others
            .into_iter()
            .flatten()
            .fold(&self.sampling, |most, one| if one.0 >= most.0 { one } else { most })
    }
}

/// Seconds by kernel.
type ByKernel = BTreeMap<&'static str, f64>;

/// Seconds by phase and kernel.
type KernelSeconds = BTreeMap<(&'static str, &'static str), f64>;

/// Seconds beyond those of `before`.
fn since(before: &ByKernel, now: ByKernel) -> ByKernel {
    now.into_iter().map(|(name, seconds)| (name, seconds - before.get(name).unwrap_or(&0.0))).collect()
}

/// Adds the seconds of a phase, so many times.
fn add(to: &mut KernelSeconds, phase: &'static str, seconds: ByKernel, times: u64) {
    for (name, seconds) in seconds {
        *to.entry((phase, name)).or_default() += times as f64 * seconds;
    }
}

/// Takes down the work of every phase, and the most that was held until responses were there; the ledger's peak begins again then.
struct Count<'a> {
    dry: &'a Dry,
    began: RefCell<(Work, ByKernel)>,
    work: Cell<StepWork>,
    kernels: RefCell<KernelSeconds>,
    peak: RefCell<(u64, Uses)>,
    /// True if the extra inputs are responses that are sampled, too.
    completes: bool,
}

impl Observer for Count<'_> {
    fn begin(&self, _: Phase) {
        self.began.replace((self.dry.work(), self.dry.kernels()));
    }

    fn end(&self, phase: Phase) -> Result<(), DeviceError> {
        let mut work = self.work.get();
        let (name, sum) = match phase {
            Phase::Sample => {
                self.peak.replace(self.dry.ledger().peak());
                self.dry.ledger().forget_peak();
                return Ok(());
            }
            Phase::ExtraInputs if self.completes => {
                let most = self.dry.ledger().peak();
                if most.0 > self.peak.borrow().0 {
                    self.peak.replace(most);
                }
                self.dry.ledger().forget_peak();
                return Ok(());
            }
            // A method with a critic is refused; a device has the gradients of prompts with those of their rows.
            Phase::ExtraInputs | Phase::Prompts | Phase::Critic => return Ok(()),
            Phase::Reference => ("reference", &mut work.reference),
            Phase::Forward => ("forward", &mut work.forward),
            Phase::Backward => ("backward", &mut work.backward),
            Phase::Optimiser => ("optimiser", &mut work.optimiser),
        };
        let (began, before) = &*self.began.borrow();
        *sum = *sum + (self.dry.work() - *began);
        add(&mut self.kernels.borrow_mut(), name, since(before, self.dry.kernels()), 1);
        self.work.set(work);
        Ok(())
    }
}

/// Counts a step of `config` on a model of this shape, the sampling of an evaluation and, where examples have a length, a supervised step.
pub fn predict(shape: &Shape, config: &Config, dtype: Dtype, longest: MaxLengths) -> Result<StepPrediction> {
    predict_at(Ceilings::default(), shape, config, dtype, longest)
}

/// [`predict`] with the seconds of a device of these rates.
pub fn predict_at(
    ceilings: Ceilings,
    shape: &Shape,
    config: &Config,
    dtype: Dtype,
    longest: MaxLengths,
) -> Result<StepPrediction> {
    let prompt_tokens = longest.prompt;
    let supervised = supervised_step(ceilings, shape, config, dtype, longest.example)?;
    let (supervised, supervised_work) = supervised.unzip();
    let dry = Arc::new(Dry::at(ceilings));
    let device: Arc<dyn Device> = dry.clone();
    let mut engine = synthetic_engine(&device, shape, config, dtype, SyntheticWeights::Uninitialised)?;
    let (_, state) = device.ledger().peak();
    let sampled_here = config.rollout.is_none();
    let [(prefill, of_prefill), (decode, of_decode)] = match sampled_here {
        true => sampling_work(&engine, &dry, config, prompt_tokens)?,
        false => Default::default(),
    };
    dry.ledger().forget_peak();
    let rl = &config.rl;
    if sampled_here && config.eval.n > 0 {
        let together = eval_slots(config.memory.slots);
        let mut evaluation = config.clone();
        evaluation.memory.slots = Some(together);
        let evaluated = prompts(config.eval.n.min(QUEUE * together), prompt_tokens, shape.vocab_size, 0);
        generate(&engine, &evaluation, &evaluated, (1, rl.max_new_tokens), 0)?;
    }
    let count = Count {
        dry: &dry,
        began: RefCell::default(),
        work: Cell::default(),
        kernels: RefCell::default(),
        peak: RefCell::default(),
        completes: config.step_start().is_some(),
    };
    run(&mut engine, config, Some(&device), (prompt_tokens, 0), &count)?;
    let (sampling, update) = (count.peak.take(), device.ledger().peak());
    // A server samples in the place of the card, which holds its state meanwhile.
    let sampling = if sampled_here { sampling } else { (state.values().sum(), state.clone()) };
    // Where they do not all run together, every slot has several responses after each other.
    let turns = (rl.prompts_per_step * rl.group_size).div_ceil(at_a_time(config).max(1));
    let steps = (turns * rl.max_new_tokens.saturating_sub(1)) as u64;
    let work = StepWork { prefill, decode: decode.times(steps), ..count.work.get() };
    let mut kernels = count.kernels.take();
    add(&mut kernels, "prefill", of_prefill, 1);
    add(&mut kernels, "decode", of_decode, steps);
    // What a phase did not run is the rounding of a difference of sums.
    kernels.retain(|_, seconds| *seconds > 1e-9);
    let (host, supervised_work) = (engine.host_bytes(), supervised_work.unwrap_or_default());
    Ok(StepPrediction {
        state,
        sampling,
        update,
        supervised,
        supervised_work,
        host,
        decode,
        work,
        kernels,
        ceilings,
    })
}

/// Work of reading the prompts, and of one step of decoding at the mean length of its rows.
fn sampling_work(
    engine: &GpuEngine,
    dry: &Dry,
    config: &Config,
    prompt_tokens: usize,
) -> Result<[(Work, ByKernel); 2]> {
    let rl = &config.rl;
    let work_of = |(n, prompt_tokens): (usize, usize), (group, new): (usize, usize)| {
        let prompts = prompts(n, prompt_tokens, engine.shape().vocab_size, 0);
        let (before, kernels) = (dry.work(), dry.kernels());
        generate(engine, config, &prompts, (group, new), 0)?;
        Ok::<_, SyntheticStepError>((dry.work() - before, since(&kernels, dry.kernels())))
    };
    let prefill = work_of((rl.prompts_per_step, prompt_tokens), (rl.group_size, 1))?;
    // A cache is counted as full. Two new tokens take one step more than one: none is recorded yet.
    let mean = (prompt_tokens + rl.max_new_tokens / 2).saturating_sub(2).max(1);
    let rows = (at_a_time(config), mean);
    let ((one, of_one), (two, of_two)) = (work_of(rows, (1, 1))?, work_of(rows, (1, 2))?);
    Ok([prefill, (two - one, since(&of_one, of_two))])
}

/// Responses of a step that are decoded at a time.
fn at_a_time(config: &Config) -> usize {
    slots::count(config.rl.prompts_per_step * config.rl.group_size, config.memory.slots)
}

/// The most that is held, and the work.
type PeakAndWork = ((u64, Uses), Work);

/// Peak and work of a supervised step on examples of this many tokens; `None` without one.
fn supervised_step(
    ceilings: Ceilings,
    shape: &Shape,
    config: &Config,
    dtype: Dtype,
    example: usize,
) -> Result<Option<PeakAndWork>> {
    if config.sft.steps == 0 || example < 2 {
        return Ok(None);
    }
    let dry = Arc::new(Dry::at(ceilings));
    let device: Arc<dyn Device> = dry.clone();
    let (lora, place) = (config.lora.clone(), config.memory.optimiser);
    let setup = TrainingSetup { lora, place, ..TrainingSetup::new(config.sft_optimiser()) };
    let mut engine =
        GpuEngine::synthetic(&device, dtype, shape, setup, false, SyntheticWeights::Uninitialised)?;
    let before = dry.work();
    let example = Example { prompt: vec![0], response: vec![0; example - 1] };
    sft::step(&mut engine, &vec![example; config.sft.batch], RATE, config.memory)?;
    Ok(Some((device.ledger().peak(), dry.work() - before)))
}
