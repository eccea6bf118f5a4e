//! The step on made-up prompts and rewards, and the time of its phases.

use std::cell::Cell;
use std::sync::Arc;

use grpo_lambda::group::InputKind;
use grpo_lambda_decoder::generate::{Responses, SampledResponse};
use grpo_lambda_decoder::mismatch::Mismatch;
use grpo_lambda_decoder::model::{Error, ModelConfig as Shape};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_gpu::{Device, DeviceError, Dtype};
use grpo_lambda_grade::Gold;

use super::clock::{Clocked, Moment};
use super::{Result, SyntheticStepError};
use crate::config::Config;
use crate::reward::RewardBreakdown;
use crate::step::engine::{Engine, GpuEngine, SyntheticWeights, TrainingSetup};
use crate::step::extra_inputs::{is_of_the_cpu, provided};
use crate::step::{
    Observer, Phase, RequestedCompletions, RewardFunction, Rewards, StepContext, StepReport, StepSettings,
    StepStarts, TrainingPrompt,
};

/// The learning rate: too small to matter.
pub(super) const RATE: f64 = 1e-6;

/// Seconds of each phase of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTimings {
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
    /// The gradients of shared prompts, where they wait for all rows.
    pub prompts: f64,
    /// The optimiser, and clearing the gradients.
    pub optimiser: f64,
    /// Laying out the new weights for products, where that takes a pass of its own.
    pub packing: f64,
    /// All of it, with credit and loss.
    pub step: f64,
}

/// Rewards that differ within every group: every other response is right.
#[derive(Clone, Copy, Debug)]
pub struct AlternatingRewards;

impl RewardFunction for AlternatingRewards {
    fn rewards(&self, _: u64, _: &TrainingPrompt, responses: &[SampledResponse]) -> Rewards {
        let breakdowns = |i: usize| RewardBreakdown {
            total: Some(f64::from(i.is_multiple_of(2))),
            components: Vec::new(),
        };
        Ok((0..responses.len()).map(breakdowns).collect())
    }
}

/// Seconds since `began`, all work of the device done.
fn elapsed(began: Moment, device: Option<&Arc<dyn Device>>) -> Result<Clocked<f64>, DeviceError> {
    device.map_or(Ok(()), |device| device.synchronize())?;
    Ok(began.elapsed())
}

/// The clock of phases, each of which has done its work when it ends.
struct PhaseClock<'a> {
    device: Option<&'a Arc<dyn Device>>,
    began: Cell<Moment>,
    phases: Cell<Clocked<StepTimings>>,
}

impl Observer for PhaseClock<'_> {
    fn begin(&self, _: Phase) {
        self.began.set(Moment::now());
    }

    fn end(&self, phase: Phase) -> Result<(), DeviceError> {
        let seconds = elapsed(self.began.get(), self.device)?;
        self.phases.set(self.phases.get().with(seconds, |mut phases, seconds| {
            match phase {
                Phase::Sample => phases.decode += seconds,
                Phase::Reference => phases.reference += seconds,
                Phase::Forward => phases.forward += seconds,
                Phase::Backward => phases.backward += seconds,
                Phase::Prompts => phases.prompts += seconds,
                Phase::Optimiser => phases.optimiser += seconds,
                // Part of the step alone; a method with a critic is refused.
                Phase::ExtraInputs | Phase::Critic => {}
            }
            phases
        }));
        Ok(())
    }
}

/// One step of `config` on prompts of this many tokens: its seconds, and the distance between the trainer's log-probabilities and the sampler's;
/// `number` is the step's.
pub fn step(
    engine: &mut dyn Engine,
    config: &Config,
    device: Option<&Arc<dyn Device>>,
    prompt_tokens: usize,
    number: u64,
) -> Result<(Clocked<StepTimings>, Mismatch)> {
    let clock = PhaseClock { device, began: Cell::new(Moment::now()), phases: Cell::default() };
    let (report, prefill, step) = run(engine, config, device, (prompt_tokens, number), &clock)?;
    let timed = clock.phases.get().with(prefill, |timed, prefill| {
        let decode = (timed.decode - prefill).max(0.0);
        StepTimings { prefill, decode, ..timed }
    });
    Ok((timed.with(step, |timed, step| StepTimings { step, ..timed }), report.mismatch))
}

/// Takes a step: its report, and the seconds of its prefill and of all of it.
pub(super) fn run(
    engine: &mut dyn Engine,
    config: &Config,
    device: Option<&Arc<dyn Device>>,
    (prompt_tokens, number): (usize, u64),
    observer: &dyn Observer,
) -> Result<(StepReport, Clocked<f64>, Clocked<f64>)> {
    let (configured, rl) = (config.configured(), &config.rl);
    let lacks = |kind: &InputKind| !provided(configured).contains(kind) || is_of_the_cpu(*kind);
    if let Some(asked) = configured.extra_inputs().into_iter().find(lacks) {
        return Err(SyntheticStepError::ExtraInputs { method: config.method.clone(), asked });
    }
    let prompts = prompts(rl.prompts_per_step, prompt_tokens, engine.shape().vocab_size, number);
    // The prompts are read once more, to know how long that takes.
    let clock = Moment::now();
    generate(engine, config, &prompts, (rl.group_size, 1), number)?;
    let prefill = elapsed(clock, device)?;
    let settings = settings(config);
    let context = StepContext::new(&settings, configured.method.as_ref(), &AlternatingRewards);
    let context = StepContext { observer, ..context };
    let clock = Moment::now();
    let rollout = context.sample(engine, prompts, rl.group_size, number)?;
    let report = context.step(engine, &rollout, RATE)?;
    Ok((report, prefill, elapsed(clock, device)?))
}

/// Steps of a made-up response at least, where the method reads their values.
const STEPS: usize = 4;

/// The settings of a configuration without end tokens, so that every response has full length, and without a limit on rounding, which is reported.
///
/// The text decides where steps start, and there is none: a response has as many of equal length as give a prompt at least as many completions as
/// it has responses, which is the most that are decoded at a time. More steps take longer, and no more memory. An adaptive entropy bonus is on.
fn settings(config: &Config) -> StepSettings {
    let rl = &config.rl;
    let steps = STEPS.max(rl.group_size.div_ceil(rl.completions));
    let starts = StepStarts::Interval(rl.max_new_tokens.div_ceil(steps));
    let completions = config.step_start().map(|_| RequestedCompletions { count: rl.completions, starts });
    let entropy_coef = rl.entropy_target.map_or(rl.entropy_coef, |_| rl.entropy_coef_max);
    let own = StepSettings::new(config, &[]);
    StepSettings {
        seed: 0,
        max_logp_error: f64::INFINITY,
        leaves_still: false,
        completions,
        entropy_coef,
        ..own
    }
}

/// `group` responses of `new` tokens to each prompt.
pub(super) fn generate(
    engine: &dyn Engine,
    config: &Config,
    prompts: &[TrainingPrompt],
    (group, new): (usize, usize),
    number: u64,
) -> Responses {
    let mut settings = settings(config);
    settings.sampling.max_new_tokens = new;
    let configured = config.configured();
    let context = StepContext::new(&settings, configured.method.as_ref(), &AlternatingRewards);
    context.generate(engine, prompts, group, number)
}

/// Random prompts, whose answers nobody reads.
pub(super) fn prompts(n: usize, tokens: usize, vocabulary: usize, number: u64) -> Vec<TrainingPrompt> {
    let base = Address::new(1, Purpose::Rollout).step(number);
    let token = |i: usize, t: usize| (base.prompt(i as u64).bits(t as u64) % vocabulary as u64) as u32;
    let ids = |i: usize| (0..tokens).map(|t| token(i, t)).collect();
    // The prompt stands for that with an answer, which is hardly longer.
    let prompt =
        |i| TrainingPrompt { answered: ids(i), ..TrainingPrompt::new(ids(i), Gold::from(0), i as u64) };
    (0..n).map(prompt).collect()
}

/// An engine of this shape with the settings of `config`, on whatever device.
pub fn synthetic_engine(
    device: &Arc<dyn Device>,
    shape: &Shape,
    config: &Config,
    dtype: Dtype,
    weights: SyntheticWeights,
) -> Result<GpuEngine, Error> {
    let (lora, place) = (config.lora.clone(), config.memory.optimiser);
    let setup = TrainingSetup { lora, place, ..TrainingSetup::new(config.rl_optimiser()) };
    let reference = config.configured().extra_inputs().contains(&InputKind::RefLogps);
    GpuEngine::synthetic(device, dtype, shape, setup, reference, weights)
}
