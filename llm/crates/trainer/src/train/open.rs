//! Refusals before a run has a directory: an input that is refused leaves nothing.

use std::sync::Once;

use grpo_lambda_decoder::generate::RolloutError;
use grpo_lambda_decoder::model;
use grpo_lambda_gpu::select::{self, CandleDevice, ComputeDevice, DevicePreference, NoCard, SelectError};
use grpo_lambda_gpu::{Device, Dtype};

use super::error::{Result, TrainError};
use crate::config::{Config, ConfigError, EngineKind, ModelSource};
use crate::eval::EvalError;
use crate::input::task::Split;
use crate::input::tokens::ModelTokenizer;
use crate::plan::memory::{self, StepShape};
use crate::plan::synthetic;
use crate::problems::{MaxLengths, Problems, Stage, has_teacher};
use crate::reward::program::{Question, RewardProgram};
use crate::run;
use crate::run::progress::say;
use crate::run::stop;
use crate::step::extra_inputs;

/// Selects the device of the settings `device` and `dtype`. The user is informed, once, when `device = auto` finds no usable card. A card has to
/// prove itself, unless it is trusted.
///
/// # Errors
/// When a card is required and cannot be used, or the dtype needs a card and there is none.
pub fn choose_device(device: DevicePreference, dtype: Option<Dtype>, trust: bool) -> Result<ComputeDevice> {
    static NOTICE: Once = Once::new();
    let find = |dtype| if trust { select::find_card(dtype, say) } else { select::find_proved(dtype, say) };
    let (chosen, unusable) = select::choose(device, dtype, find)?;
    if let Some(error) = unusable {
        NOTICE.call_once(|| say(&format!("device = auto: the CPU is used: {error}")));
    }
    Ok(chosen)
}

/// Selects the device of a configuration.
///
/// # Errors
/// If a card is required and cannot be used, or the dtype needs a card and there is none.
pub fn device(config: &Config) -> Result<ComputeDevice> {
    let chosen = match config.engine {
        EngineKind::Own => choose_device(config.device, config.dtype, config.gpu.trust)?,
        EngineKind::Candle => CandleDevice::choose(config.device, config.dtype),
    };
    refuse_elsewhere(config, &chosen).map(|()| chosen)
}

/// Refuses what our decoder on the CPU alone computes, on another device.
pub(super) fn refuse_elsewhere(config: &Config, device: &ComputeDevice) -> Result<()> {
    if matches!(device, ComputeDevice::Cpu) {
        return Ok(());
    }
    let asked =
        config.configured().extra_inputs().into_iter().find(|kind| extra_inputs::is_of_the_cpu(*kind));
    let Some(kind) = asked else { return Ok(()) };
    let only = match device {
        ComputeDevice::Cuda(card, _) => format!("on the CPU, not on {}; set device=cpu", card.name()),
        _ => "by our own decoder on the CPU; set engine=own device=cpu".to_owned(),
    };
    let (method, input) = (&config.method, kind.name());
    Err(ConfigError::Conflict(format!("method.name={method}: {input} is only supported {only}")).into())
}

/// Refuses a run directory where a checkpoint is expected: a run has several checkpoints and may get more, so the same command could later
/// mean another one.
pub(super) fn refuse_run_directory(config: &Config) -> Result<()> {
    let ModelSource::Checkpoint(directory) = &config.model else { return Ok(()) };
    if directory.join("config.json").exists() || !directory.join("checkpoints").is_dir() {
        return Ok(());
    }
    let latest = run::latest(directory).map_err(TrainError::Open)?;
    let hint = latest
        .map_or("it has no complete one".to_owned(), |c| format!("its latest is {}", c.path().display()));
    Err(ConfigError::Conflict(format!(
        "model.checkpoint = {}: a run directory; name one of its checkpoints: {hint}",
        directory.display()
    ))
    .into())
}

/// The configuration with the settings decided that are left to the device's memory. Refuses prompts, and steps, that do not fit; of steps on a
/// card only those of a run that `will_step`.
pub(super) fn decided(
    config: &Config,
    device: &ComputeDevice,
    (problems, tokens, shape): (&Problems, &ModelTokenizer, &model::ModelConfig),
    will_step: bool,
) -> Result<Config> {
    let held_out = check_fit(config, (problems, tokens, shape))?;
    match device {
        ComputeDevice::Cpu => {
            check_machine_memory(config, shape, held_out)?;
            Ok(memory::decided(config, shape, held_out.longest))
        }
        ComputeDevice::Candle(..) => Ok(config.clone()),
        ComputeDevice::Cuda(..) if !will_step => Ok(config.clone()),
        ComputeDevice::Cuda(card, dtype) => {
            let training = problems.longest(config, tokens).map_err(TrainError::Task)?;
            let longest = MaxLengths { prompt: held_out.longest.max(training.prompt), ..training };
            let decided = decided_for_card(card.as_ref(), *dtype, config, shape, longest)?;
            if !config.gpu.trust {
                let unusable = |e| TrainError::Device(SelectError::NoCard(NoCard::Unusable(e)));
                select::prove_shape(card, *dtype, shape).map_err(unusable)?;
            }
            Ok(decided)
        }
    }
}

/// The held-out prompts of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldOutLengths {
    /// Their number.
    pub n: usize,
    /// Tokens of the longest, at least 1; with a teacher at least those of the longest problem of training with its answer.
    pub longest: usize,
}

/// Refuses what does not fit the model, before training rather than after it: an adapter, or held-out prompts that exceed the context with a
/// response.
///
/// # Errors
/// [`TrainError`]: what does not fit, or a problem that cannot be read.
pub fn check_fit(
    config: &Config,
    (problems, tokens, shape): (&Problems, &ModelTokenizer, &model::ModelConfig),
) -> Result<HeldOutLengths> {
    let mut longest = 1;
    let (new, limit) = (config.rl.max_new_tokens, shape.max_position_embeddings);
    let held_out = problems.distinct(Split::Test, config.eval.n).map_err(TrainError::Task)?;
    for (prompt, problem) in held_out.iter().enumerate() {
        let tokens = problem.encode(tokens)?.ids().len();
        if tokens + new > limit {
            return Err(EvalError::from(RolloutError::TooLong { prompt, tokens, new, limit }).into());
        }
        longest = longest.max(tokens);
    }
    if has_teacher(config) {
        longest = longest.max(problems.longest(config, tokens).map_err(TrainError::Task)?.prompt);
    }
    if let Some(lora) = &config.lora {
        lora.shapes(shape).map_err(|e| ConfigError::Conflict(format!("lora.{e}")))?;
    }
    Ok(HeldOutLengths { n: held_out.len(), longest })
}

/// Asks the program of `reward.command` about one right answer, so that a misspelt path is found before any training.
pub(super) fn try_reward_program(
    config: &Config,
    problems: &Problems,
    tokens: &ModelTokenizer,
) -> Result<()> {
    let active = config.rl.steps > 0 && config.reward.is_active("command");
    let Some(program) = config.reward.command.as_ref().filter(|_| active) else { return Ok(()) };
    let problem = problems.problem(Stage::Rl, 0).map_err(TrainError::Task)?;
    let answer = tokens.target(problem.answer_only())?;
    let question = Question {
        prompt: tokens.text(problem.encode(tokens)?.ids())?,
        completion: tokens.text(answer.ids())?,
        gold: problem.gold.to_string(),
        tokens: answer.ids().len(),
        token_ids: answer.ids().to_vec(),
        step: 0,
        row: Question::columns(&problem.others),
    };
    // Its settings may be a stranger's: see docs/records.md. Spelt out, since they may hold characters that a terminal obeys.
    say(&format!("reward.command starts the program {:?}", program.line));
    let program = RewardProgram::new(&program.line, program.timeout).heeding(|| stop::requested().is_some());
    program.try_out(question, &mut |line| say(line)).map_err(|e| ConfigError::Conflict(e.to_string()).into())
}

/// Refuses a run whose rollout, with every response at its limit, takes more memory than this machine has: the system would end it after
/// minutes without a word.
fn check_machine_memory(config: &Config, shape: &model::ModelConfig, held_out: HeldOutLengths) -> Result<()> {
    let rl = &config.rl;
    let Some(there) = memory::total_mib().filter(|_| rl.steps > 0) else { return Ok(()) };
    let step = StepShape { evaluated: held_out.n, ..StepShape::new(config, held_out.longest) };
    let estimate = memory::estimate(shape, &step, config.lora.as_ref());
    let needed =
        (memory::total(&estimate.state) + memory::total(&estimate.rollout)) as f64 / f64::from(1 << 20);
    if needed <= there {
        return Ok(());
    }
    Err(ConfigError::Conflict(format!(
        "rl.prompts_per_step = {}, rl.group_size = {}, rl.max_new_tokens = {}, eval.n = {}: sampling takes {needed:.0} MiB when every response \
         reaches its limit (keys and values above all), and this machine has {there:.0}; lower one of them, or memory.slots (train --dry-run \
         itemises it)",
        rl.prompts_per_step, rl.group_size, rl.max_new_tokens, config.eval.n
    ))
    .into())
}

/// The configuration with the settings decided that are left to the card's memory. Refuses a run whose step, at its longest rows, is predicted
/// to exceed that memory.
fn decided_for_card(
    card: &dyn Device,
    dtype: Dtype,
    config: &Config,
    shape: &model::ModelConfig,
    longest: MaxLengths,
) -> Result<Config> {
    let refused = |line: String| TrainError::Config(ConfigError::Conflict(line));
    let (free, _) = card.memory().map_err(model::Error::Device)?;
    let (decided, predicted) =
        synthetic::decided(shape, config, dtype, longest, free).map_err(|e| refused(e.to_string()))?;
    synthetic::memory_check(&predicted, free, &decided).map_err(refused)?;
    synthetic::host_check(&predicted, memory::total_mib()).map_err(refused)?;
    Ok(decided)
}
