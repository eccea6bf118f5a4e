//! A training run: supervised learning, evaluation, reinforcement learning, evaluation; resumable at every checkpoint.
//!
//! Everything a step does is a function of the configuration, the step's number and the state in the last checkpoint, so
//! a run that was killed continues bit for bit as if it had not been.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Instant;

use grpo_lambda::advantage::all_equal;
use grpo_lambda::group::{EvidenceKind, Group};
use grpo_lambda::learner;
use grpo_lambda::learner::Policy;
use grpo_lambda::methods::{self, Configured, MissingEvidence};
use grpo_lambda::metrics::Metrics;
use grpo_lambda::stats::{self, Interval};
use grpo_lambda_decoder::lora;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{self, Decoder, weights};
use grpo_lambda_decoder::optim::{AdamWSettings, OptimError, Update};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::rollout::Sampler;
use grpo_lambda_decoder::rollout::{RolloutError, Sampling};
use grpo_lambda_gpu::select::{self, Chosen, SelectError};
use grpo_lambda_gpu::{Device, Dtype};
use serde::{Deserialize, Serialize};

use crate::config::{Config, ConfigError, ModelSource};
use crate::eval::{self, EvalError, Evaluation};
use crate::input::task::Split;
use crate::input::tokens::{TokenError, Tokens};
use crate::plan::synthetic;
use crate::problems::Longest;
use crate::problems::{Problems, Stage, TaskError};
use crate::reward::{Earned, Watch};
use crate::run::progress::{Progress, say};
use crate::run::{self, Checkpoint, Columns, Opened, RunDir, RunError};
use crate::step::engine::{Cpu, Engine, Gpu, Stage as Start};
use crate::step::evidence::{self, Cost, PROVIDED, Question, QuestionError, why_not};
use crate::step::policy::{Exercise, LlmPolicy, PolicyError};
use crate::step::sft::{self, Example, SftError};

/// Columns of `metrics.csv`: nothing of the clock or the machine. Those of the reward's components come after them ([`metrics_columns`]).
pub const METRICS: &[&str] = &[
    "loss",
    "lr",
    "grad_norm",
    "grad_scale",
    "skipped",
    "tokens",
    "reward",
    "accuracy",
    "kl",
    "entropy",
    "ratio_mean",
    "ratio_max",
    "trace_ratio_max",
    "clip_fraction_low",
    "clip_fraction_high",
    "saturated_fraction",
    "logp_error",
    "logp_error_max",
    "length",
    "truncated",
    "groups",
    "zero_variance_groups",
    "ungraded",
    "evidence_forward_tokens",
    "evidence_backward_tokens",
    "eval_accuracy",
    "eval_low",
    "eval_high",
];

/// Every column of a run's `metrics.csv`: [`METRICS`], the mean of each component of the reward that has a weight, and how many of
/// those are stuck.
pub fn metrics_columns(config: &Config) -> Vec<String> {
    let fixed = METRICS.iter().map(|name| (*name).to_owned());
    let components = config.reward.active().map(|(_, component)| component.column.to_owned());
    fixed.chain(components).chain([STUCK.to_owned()]).collect()
}

/// How many components of the reward have not moved for `reward.stuck_steps` steps.
const STUCK: &str = "reward_stuck";

/// Columns of `timing.csv`.
pub const TIMING: &[&str] =
    &["seconds", "sample_seconds", "update_seconds", "tokens_per_second", "peak_rss_mib"];

/// Batches sampled at most for one step of dynamic sampling.
const MAX_ROUNDS: u64 = 4;

/// Steps in a row in which no group taught anything before a warning.
const DULL_STEPS: u64 = 5;

/// Why there is none of the evidence of this name.
fn lacks(name: &str) -> &'static str {
    EvidenceKind::ALL.into_iter().find(|kind| kind.name() == name).map_or("", why_not)
}

fn names(kinds: &[EvidenceKind]) -> String {
    kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

/// What ends a run early.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The run directory, when it is opened.
    #[error(transparent)]
    Open(RunError),
    /// The run directory, later.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The model or its files.
    #[error(transparent)]
    Model(#[from] model::Error),
    /// The model, on its way into a checkpoint.
    #[error("no checkpoint was written: {0}; those before it are kept")]
    Save(model::Error),
    /// The tokenizer.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The problems, when they are opened.
    #[error(transparent)]
    Task(TaskError),
    /// A problem, later.
    #[error("a problem cannot be read: {0}")]
    Problem(TaskError),
    /// Supervised learning.
    #[error("supervised step {step}: {source}")]
    Sft {
        /// The step.
        step: u64,
        /// What happened.
        source: SftError,
    },
    /// Reinforcement learning.
    #[error("RL step {step}: {source}")]
    Rl {
        /// The step.
        step: u64,
        /// What happened.
        source: PolicyError,
    },
    /// Evaluation.
    #[error("evaluation: {0}")]
    Eval(#[from] EvalError),
    /// The optimiser's state in a checkpoint.
    #[error(transparent)]
    Optim(#[from] OptimError),
    /// A checkpoint that is whole but not ours.
    #[error("{path}: {problem}")]
    State {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Evidence the method needs and this policy does not have.
    #[error(
        "method.name={method}: needs {needs} under these settings, which comes from {provided_by}; {}; the language model provides {}",
        lacks(.0.needs), names(PROVIDED), method = .0.method, needs = .0.needs, provided_by = .0.provided_by
    )]
    Evidence(#[from] MissingEvidence),
    /// Nothing to compute on as the configuration has it.
    #[error(transparent)]
    Device(#[from] SelectError),
    /// Evidence that a card cannot be asked for.
    #[error(
        "method.name={method}: {evidence} is asked of the CPU's decoder only: set device=cpu (found {card})"
    )]
    OnTheCpuOnly {
        /// The method.
        method: String,
        /// The evidence.
        evidence: &'static str,
        /// The card.
        card: String,
    },
    /// Settings of the method's evidence that this model cannot take.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// Too many NaN gradients.
    #[error(
        "{count} steps in a row had a gradient with NaN or infinity (first in `{parameter}`) and were skipped; \
         the run stops at step {step}: lower the learning rate, or start from an earlier checkpoint"
    )]
    NotFinite {
        /// The step.
        step: u64,
        /// How many.
        count: u64,
        /// Where.
        parameter: String,
    },
}

impl TrainError {
    /// Whether the input was refused, rather than the work broken off.
    pub fn refused(&self) -> bool {
        let too_long = |e: &RolloutError| matches!(e, RolloutError::TooLong { .. });
        match self {
            TrainError::Config(_)
            | TrainError::Open(_)
            | TrainError::Model(_)
            | TrainError::Token(_)
            | TrainError::Task(_)
            | TrainError::Optim(_)
            | TrainError::State { .. }
            | TrainError::Evidence(_)
            | TrainError::Device(_)
            | TrainError::OnTheCpuOnly { .. }
            | TrainError::Question(_) => true,
            TrainError::Rl { source: PolicyError::Rollout(e), .. }
            | TrainError::Eval(EvalError::Rollout(e)) => too_long(e),
            TrainError::Sft { source: SftError::Model(e), .. } => matches!(e, model::Error::Input { .. }),
            TrainError::Run(_)
            | TrainError::Problem(_)
            | TrainError::Save(_)
            | TrainError::Sft { .. }
            | TrainError::Rl { .. }
            | TrainError::Eval(_)
            | TrainError::NotFinite { .. } => false,
        }
    }
}

/// What a run remembers beside weights and moments.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
struct State {
    sft_done: u64,
    rl_done: u64,
    skipped_in_a_row: u64,
    dull_in_a_row: u64,
    /// Once a run is enough: a policy that collapsed would repeat it every few steps.
    dull_warned: bool,
    #[serde(default)]
    watch: Watch,
    before: Option<Evaluation>,
    /// Where it computes: see [`Chosen::describe`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on: Option<String>,
    /// What identifies the rows of the data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
}

impl State {
    fn done(&self) -> u64 {
        self.sft_done + self.rl_done
    }
}

/// What a finished run says.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Summary {
    /// Method with every setting.
    pub method: String,
    /// Its settings.
    pub settings: BTreeMap<String, String>,
    /// The run's seed.
    pub seed: u64,
    /// Held-out accuracy after supervised learning, before RL.
    pub accuracy_before: f64,
    /// Its 95 % interval (Wilson).
    pub accuracy_before_interval: [f64; 2],
    /// Mean length of a held-out response before RL, in tokens.
    pub length_before: f64,
    /// Held-out accuracy after RL.
    pub accuracy_after: f64,
    /// Its 95 % interval (Wilson).
    pub accuracy_after_interval: [f64; 2],
    /// Held-out problems.
    pub n: u64,
    /// Parameters of the model.
    pub parameters: usize,
    /// Steps of supervised and reinforcement learning.
    pub steps: [u64; 2],
    /// Wall-clock seconds of this process; less than the whole run's when it was resumed.
    pub seconds: f64,
    /// The checkpoint with the final weights.
    pub checkpoint: PathBuf,
}

/// A run under way.
struct Run<'a> {
    config: &'a Config,
    configured: Configured,
    tokens: Tokens,
    problems: Problems,
    dir: RunDir,
    state: State,
    shape: model::Config,
    /// Of the stage under way.
    progress: Option<Progress>,
    started: Instant,
}

/// Runs `config` in `directory`, from the start or from its latest checkpoint, and returns its summary.
///
/// # Errors
/// [`TrainError`]; everything up to the last checkpoint is kept.
pub fn train(config: &Config, directory: &Path, command: &str) -> Result<Summary, TrainError> {
    train_on(device(config)?, config, directory, command)
}

/// [`train`] on this device, whatever the configuration says of devices.
///
/// # Errors
/// As [`train`].
pub fn train_on(
    chosen: Chosen,
    config: &Config,
    directory: &Path,
    command: &str,
) -> Result<Summary, TrainError> {
    let started = Instant::now();
    let configured = config.configured();
    configured.require(PROVIDED)?;
    if let ModelSource::Checkpoint(directory) = &config.model {
        refuse_a_run(directory)?;
    }
    let tokens = tokens(config)?;
    // Before the run directory: an input that is refused leaves nothing behind.
    let (shape, mut parameters) = initial_weights(config, &tokens)?;
    let limit = shape.max_position_embeddings;
    let problems = Problems::open(config, &tokens, limit, &mut say).map_err(TrainError::Task)?;
    let longest = check_room(config, &problems, &tokens, limit)?;
    Question::of(&configured, &tokens, shape.vocab_size)?;
    if let Some(lora) = &config.lora {
        lora.shapes(&shape).map_err(ConfigError::Conflict)?;
    }
    if let (Chosen::Cuda(card, dtype), false) = (&chosen, directory.join("summary.json").exists()) {
        let training = problems.longest(&tokens, config.sft.steps > 0).map_err(TrainError::Task)?;
        let longest = Longest { prompt: longest.max(training.prompt), ..training };
        check_card(card.as_ref(), *dtype, config, &shape, longest)?;
    }
    let metrics = metrics_columns(config);
    let metrics: Vec<&str> = metrics.iter().map(String::as_str).collect();
    let columns = Columns { command, metrics: &metrics, timing: TIMING };
    let Opened { run: dir, checkpoint, damaged } =
        RunDir::open(directory, config, columns).map_err(TrainError::Open)?;
    for path in damaged {
        say(&format!("{} is not complete and was passed over", path.display()));
    }
    let state = match &checkpoint {
        Some(c) => read_state(c)?,
        None => State { data: problems.fingerprint(), ..State::default() },
    };
    if let (Some(c), true) = (&checkpoint, state.data != problems.fingerprint()) {
        let shown = |data: &Option<String>| data.clone().unwrap_or_else(|| "none".to_owned());
        let (then, now) = (shown(&state.data), shown(&problems.fingerprint()));
        let problem = format!(
            "the rows of task.data are not those this run began with (checksum {now}, not {then}); put them back, or start another run"
        );
        return Err(TrainError::State { path: c.path().join("state.json"), problem });
    }
    if let Some(c) = &checkpoint {
        c.verify().map_err(TrainError::Open)?;
        say(&format!("continuing from step {} in {}", c.step(), c.path().display()));
        parameters = weights::load(c.path(), &shape)?;
    }
    let done = state.before.is_some() && state.done() == config.sft.steps + config.rl.steps;
    if let (true, Some(c)) = (done, &checkpoint)
        && let Ok(Some(summary)) = dir.summary()
        && let Ok(summary) = serde_json::from_value::<Summary>(summary)
    {
        say("the run is done; this is what it found");
        return Ok(Summary { checkpoint: c.path().to_owned(), ..summary });
    }
    let mut run = Run { config, configured, tokens, problems, dir, state, shape, progress: None, started };
    run.announce(&chosen);
    run.settle(&chosen);
    match chosen {
        Chosen::Cpu => run.whole(parameters, checkpoint, &|shape, parameters, start| {
            Cpu::start(Decoder::new(shape.clone(), parameters)?, start)
        }),
        Chosen::Cuda(card, dtype) => run.whole(parameters, checkpoint, &|shape, parameters, start| {
            Gpu::start(&card, dtype, shape, &parameters, start)
        }),
    }
}

/// Makes the engine of a stage.
type Starter<'s, E> = dyn Fn(&model::Config, Parameters<f32>, Start) -> model::Result<E> + 's;

/// A run has several checkpoints and may get others: one of them is to be named, so that the same command means the same.
fn refuse_a_run(directory: &Path) -> Result<(), TrainError> {
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

/// Refuses held-out prompts that leave no room for a response, before any learning rather than after it; the longest of them, in tokens.
fn check_room(
    config: &Config,
    problems: &Problems,
    tokens: &Tokens,
    limit: usize,
) -> Result<usize, TrainError> {
    let mut longest = 1;
    let new = config.rl.max_new_tokens;
    let held_out = problems.distinct(Split::Test, config.eval.n).map_err(TrainError::Task)?;
    for (prompt, problem) in held_out.iter().enumerate() {
        let tokens = problem.encode(tokens)?.ids().len();
        if tokens + new > limit {
            return Err(EvalError::from(RolloutError::TooLong { prompt, tokens, new, limit }).into());
        }
        longest = longest.max(tokens);
    }
    Ok(longest)
}

/// Refuses a run of which a step is predicted not to fit the card, before any of it: with rows as long as its longest.
fn check_card(
    card: &dyn Device,
    dtype: Dtype,
    config: &Config,
    shape: &model::Config,
    longest: Longest,
) -> Result<(), TrainError> {
    let refused = |line: String| TrainError::Config(ConfigError::Conflict(line));
    let predicted = synthetic::predict(shape, config, dtype, longest).map_err(|e| refused(e.to_string()))?;
    let (free, _) = card.memory().map_err(model::Error::Device)?;
    synthetic::memory_check(&predicted, free, config).map_err(refused)
}

/// Where a run of this configuration computes. The first time that a card is looked for in vain without being demanded, the user is told.
///
/// # Errors
/// When a card is demanded and cannot be used, or the numbers are those of a card and there is none.
pub fn device(config: &Config) -> Result<Chosen, TrainError> {
    static TOLD: Once = Once::new();
    let (chosen, told) = select::choose(config.device, config.dtype, |dtype| select::look(dtype, say))?;
    if let Some(line) = told {
        TOLD.call_once(|| say(&line));
    }
    let asked = config.configured().evidence().into_iter().find(|kind| evidence::price(*kind).is_some());
    match (chosen, asked) {
        (Chosen::Cuda(card, _), Some(kind)) => Err(TrainError::OnTheCpuOnly {
            method: config.method.clone(),
            evidence: kind.name(),
            card: card.name(),
        }),
        (chosen, _) => Ok(chosen),
    }
}

/// The tokenizer of a configuration.
///
/// # Errors
/// When a checkpoint's cannot be read.
pub fn tokens(config: &Config) -> Result<Tokens, TokenError> {
    match &config.model {
        ModelSource::Checkpoint(directory) => Tokens::load(directory),
        ModelSource::Random(_) => Ok(Tokens::tiny()),
    }
}

/// The model a run starts from.
///
/// # Errors
/// When a checkpoint cannot be read or does not fit its tokenizer.
pub fn initial_model(config: &Config, tokens: &Tokens) -> Result<Decoder<f32>, TrainError> {
    let (shape, parameters) = initial_weights(config, tokens)?;
    Ok(Decoder::new(shape, parameters)?)
}

/// The shape and the weights a run starts from.
fn initial_weights(config: &Config, tokens: &Tokens) -> Result<(model::Config, Parameters<f32>), TrainError> {
    let (shape, parameters) = match &config.model {
        ModelSource::Checkpoint(directory) => {
            let shape = model::Config::load(directory)?;
            let parameters = weights::load(directory, &shape)?;
            (shape, parameters)
        }
        ModelSource::Random(s) => {
            let mut shape = model::Config::qwen2(tokens.len(), s.hidden, s.layers, s.heads, s.kv_heads);
            shape.intermediate_size = s.intermediate;
            check_memory(&shape)?;
            let parameters = weights::initialise(&shape, config.seed, 0.02);
            (shape, parameters)
        }
    };
    tokens.check(shape.vocab_size)?;
    weights::check(&shape, &parameters)?;
    Ok((shape, parameters))
}

/// Refuses a new model whose training this machine cannot hold, before the system kills it.
fn check_memory(shape: &model::Config) -> Result<(), TrainError> {
    // Weights, gradients and three numbers of the optimiser; what they are packed into and activations come on top.
    let numbers: usize = shape.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum();
    let needed = 5.0 * 4.0 * numbers as f64 / f64::from(1 << 20);
    match crate::plan::memory::total_mib() {
        Some(there) if needed > there => Err(ConfigError::Conflict(format!(
            "model.hidden = {}, model.layers = {}, model.intermediate = {}: training {numbers} parameters takes more than {needed:.0} MiB; \
             this machine has {there:.0}, so choose a smaller model",
            shape.hidden_size, shape.num_hidden_layers, shape.intermediate_size
        ))
        .into()),
        _ => Ok(()),
    }
}

fn read_state(checkpoint: &Checkpoint) -> Result<State, TrainError> {
    let bytes = checkpoint.read("state.json")?;
    serde_json::from_slice(&bytes)
        .map_err(|e| TrainError::State { path: checkpoint.path().join("state.json"), problem: e.to_string() })
}

impl Run<'_> {
    /// A line that stays.
    fn say(&mut self, line: &str) {
        match &mut self.progress {
            Some(progress) => progress.note(line),
            None => say(line),
        }
    }

    fn step_done(&mut self, step: u64, figures: &[(&str, f64)], tokens: usize) {
        if let Some(progress) = &mut self.progress {
            progress.step(step, figures, tokens as u64);
        }
    }

    fn stage_done(&mut self) {
        if let Some(progress) = self.progress.take() {
            progress.finish();
        }
    }

    fn parameters(&self) -> usize {
        self.shape.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum()
    }

    /// A run that goes on elsewhere is told of: results agree to rounding only.
    fn settle(&mut self, chosen: &Chosen) {
        let here = chosen.describe();
        if let Some(there) = self.state.on.replace(here.clone()).filter(|there| *there != here) {
            self.say(&format!(
                "this run was {there} so far and goes on {here}: it rounds and sums differently there, so its numbers are not to the bit those of an unbroken run"
            ));
        }
    }

    fn announce(&mut self, chosen: &Chosen) {
        let c = &self.shape;
        let rl = &self.config.rl;
        let adapter = self.config.lora.as_ref().map_or(String::new(), |lora| {
            format!(", of which an adapter of rank {} to {} is trained", lora.rank, lora.targets.join(", "))
        });
        self.say(&format!(
            "{} parameters ({} layers, width {}, vocabulary {}){adapter} {}; {} with {} responses to each of {} problems a step; run directory {}",
            self.parameters(),
            c.num_hidden_layers,
            c.hidden_size,
            c.vocab_size,
            chosen.describe(),
            self.configured.spec.title,
            rl.group_size,
            rl.prompts_per_step,
            self.dir.path().display()
        ));
    }

    /// What is left of the run, on the engines that `start` makes.
    fn whole<E: Engine>(
        &mut self,
        parameters: Parameters<f32>,
        from: Option<Checkpoint>,
        start: &Starter<'_, E>,
    ) -> Result<Summary, TrainError> {
        let left = self.supervised(parameters, from.as_ref(), start)?;
        let (engine, checkpoint) = self.reinforced(left, from, start)?;
        self.finish(&engine, checkpoint.path())
    }

    /// How a stage begins: the frozen weights it refers to are those of the checkpoint, if there is one, or else those it starts from.
    /// With an adapter they are also the weights it starts from.
    fn start<E: Engine>(
        &self,
        parameters: Parameters<f32>,
        stage: Stage,
        from: Option<&Checkpoint>,
        start: &Starter<'_, E>,
    ) -> Result<E, TrainError> {
        let (adam, number): (&AdamWSettings, u64) = match stage {
            Stage::Supervised => (&self.config.sft.adam, 0),
            Stage::Reinforced => (&self.config.rl.adam, 1),
        };
        let lora = self.config.lora.clone();
        let refers =
            stage == Stage::Reinforced && self.configured.evidence().contains(&EvidenceKind::RefLogps);
        let frozen = match (from, refers || lora.is_some()) {
            (Some(c), true) => Some(weights::load(&c.path().join("reference"), &self.shape)?),
            (None, true) if lora.is_none() => Some(parameters.clone()),
            _ => None,
        };
        let (parameters, reference) = match (&lora, frozen) {
            (Some(_), Some(base)) => (base, None),
            (_, frozen) => (parameters, frozen),
        };
        // The adapters of the two stages are not to begin alike.
        let seed = self.config.seed.wrapping_add(number);
        let begin = Start { adam: adam.clone(), lora, reference, seed };
        let mut engine = start(&self.shape, parameters, begin)?;
        if let Some(c) = from {
            engine.restore(&c.read("optimiser.safetensors")?)?;
        }
        Ok(engine)
    }

    /// Supervised steps that are left, and what they leave.
    fn supervised<E: Engine>(
        &mut self,
        parameters: Parameters<f32>,
        from: Option<&Checkpoint>,
        start: &Starter<'_, E>,
    ) -> Result<Left<E>, TrainError> {
        let config = self.config;
        if self.state.sft_done == config.sft.steps {
            return Ok(Left::Weights(parameters));
        }
        let mut engine = self.start(parameters, Stage::Supervised, from, start)?;
        self.progress = Some(Progress::new("supervised", self.state.sft_done, config.sft.steps));
        while self.state.sft_done < config.sft.steps {
            let (step, clock) = (self.state.sft_done, Instant::now());
            let examples = self.examples(step)?;
            let rate = config.sft.schedule.rate(step);
            let report = sft::step(&mut engine, &examples, rate, config.memory)
                .map_err(|source| TrainError::Sft { step, source })?;
            let mut row = vec![("loss", report.loss), ("lr", rate), ("tokens", report.tokens as f64)];
            self.gradient_columns(step, &report.update, &mut row)?;
            let seconds = clock.elapsed().as_secs_f64();
            let per_second = report.tokens as f64 / seconds;
            self.dir.record("sft", step, &row, &timing(seconds, 0.0, seconds, per_second))?;
            self.state.sft_done += 1;
            self.step_done(self.state.sft_done, &[("loss", report.loss)], report.tokens);
            let last = self.state.sft_done == config.sft.steps;
            // The boundary is saved with the evaluation, below, so that it is not done twice.
            if !last && self.state.sft_done.is_multiple_of(config.checkpoint.every) {
                self.save(&engine)?;
            }
        }
        self.stage_done();
        Ok(match config.rl.steps {
            0 => Left::Engine(engine),
            _ => Left::Weights(engine.parameters()?.into_owned()),
        })
    }

    fn examples(&self, step: u64) -> Result<Vec<Example>, TrainError> {
        let sft = &self.config.sft;
        let batch = sft.batch as u64;
        let coin = Address::new(self.config.seed, Purpose::Demonstrations);
        let example = |index| {
            let problem = self.problems.problem(Stage::Supervised, index).map_err(TrainError::Problem)?;
            let worked = coin.unit(index) < sft.worked_share;
            let text = if worked { &problem.solution } else { problem.direct() };
            let response = self.tokens.target(text)?.ids().to_vec();
            Ok(Example { prompt: problem.encode(&self.tokens)?.ids().to_vec(), response })
        };
        (step * batch..(step + 1) * batch).map(example).collect()
    }

    /// Columns of an optimiser step; too many skipped ones in a row stop the run.
    fn gradient_columns(
        &mut self,
        step: u64,
        update: &Update,
        row: &mut Vec<(&'static str, f64)>,
    ) -> Result<(), TrainError> {
        match update {
            Update::Applied { grad_norm, scale } => {
                self.state.skipped_in_a_row = 0;
                row.extend([("grad_norm", *grad_norm), ("grad_scale", *scale), ("skipped", 0.0)]);
                Ok(())
            }
            Update::Skipped { parameter, not_finite } => {
                self.state.skipped_in_a_row += 1;
                let count = self.state.skipped_in_a_row;
                self.say(&format!(
                    "step {step}: {not_finite} numbers of the gradient of `{parameter}` are NaN or infinite; step skipped ({count} in a row)"
                ));
                row.push(("skipped", 1.0));
                if count >= self.config.rl.max_nan_steps {
                    return Err(TrainError::NotFinite { step, count, parameter: parameter.clone() });
                }
                Ok(())
            }
        }
    }

    fn evaluate(&mut self, model: &dyn Sampler) -> Result<Evaluation, TrainError> {
        let Config { seed, rl, eval, .. } = self.config;
        let sampling =
            Sampling { max_new_tokens: rl.max_new_tokens, min_new_tokens: 0, temperature: eval.temperature };
        // No two problems alike, so that no answer counts twice.
        let problems = self.problems.distinct(Split::Test, eval.n).map_err(TrainError::Problem)?;
        let mut progress = Progress::new("evaluation", 0, eval.n as u64);
        let mut watch = |done: usize| progress.step(done as u64, &[], 0);
        let done = eval::evaluate(model, &self.tokens, (&problems, *seed), sampling, &mut watch)?;
        progress.finish();
        Ok(done)
    }

    /// RL steps that are left, after the evaluation of what they start from; returns the final checkpoint.
    fn reinforced<E: Engine>(
        &mut self,
        left: Left<E>,
        from: Option<Checkpoint>,
        start: &Starter<'_, E>,
    ) -> Result<(E, Checkpoint), TrainError> {
        let config = self.config;
        let mut saved = from.filter(|_| self.state.before.is_some());
        let stage = if config.rl.steps > 0 { Stage::Reinforced } else { Stage::Supervised };
        let engine = match left {
            Left::Weights(parameters) => self.start(parameters, stage, saved.as_ref(), start)?,
            Left::Engine(engine) => engine,
        };
        let mut policy = LlmPolicy::new(engine, self.tokens.clone(), config);
        policy.extraction = self.problems.extraction();
        policy.question = Question::of(&self.configured, &self.tokens, self.shape.vocab_size)?;
        if saved.is_none() {
            let before = self.evaluate(&policy.engine)?;
            let when = if config.rl.steps > 0 { " before RL" } else { "" };
            self.say(&format!("held-out accuracy{when}: {}", shown(&before)));
            self.state.before = Some(before);
            saved = Some(self.save(&policy.engine)?);
        }
        self.progress = Some(Progress::new("RL", self.state.rl_done, config.rl.steps));
        while self.state.rl_done < config.rl.steps {
            self.rl_step(&mut policy)?;
            let done = self.state.rl_done;
            if done == config.rl.steps || done.is_multiple_of(config.checkpoint.every) {
                saved = Some(self.save(&policy.engine)?);
            }
        }
        self.stage_done();
        let saved = match saved {
            Some(checkpoint) => checkpoint,
            None => self.save(&policy.engine)?,
        };
        Ok((policy.engine, saved))
    }

    fn rl_step<E: Engine>(&mut self, policy: &mut LlmPolicy<E>) -> Result<(), TrainError> {
        let config = self.config;
        let (step, clock) = (self.state.rl_done, Instant::now());
        let failed = |source: PolicyError| TrainError::Rl { step, source };
        policy.step = step;
        policy.rate = config.rl.schedule.rate(step);
        policy.cost = Cost::default();
        let Batch { exercises, groups: batch, earned } = self.sample(policy, step)?;
        let sample_seconds = clock.elapsed().as_secs_f64();
        let method = self.configured.method.as_ref();
        let metrics =
            learner::update(policy, method, &exercises, &batch, config.rl.inner_updates).map_err(failed)?;
        let seconds = clock.elapsed().as_secs_f64();

        let mut row = vec![("loss", metrics.policy_loss + metrics.kl_loss), ("lr", policy.rate)];
        if let Some(report) = policy.last.clone() {
            self.gradient_columns(step, &report.update, &mut row)?;
        }
        let drift = policy.drift();
        row.extend([("logp_error", drift.mean()), ("logp_error_max", drift.max())]);
        let facts = batch_columns(&batch, &earned, &metrics);
        row.extend(facts.iter().copied());
        let components = self.reward_columns(&earned);
        row.extend(components);
        if policy.question.is_some() {
            let Cost { forward, backward } = policy.cost;
            row.extend([
                ("evidence_forward_tokens", forward as f64),
                ("evidence_backward_tokens", backward as f64),
            ]);
        }
        self.state.rl_done += 1;
        self.warn_when_dull(&batch);
        if config.eval.every > 0
            && self.state.rl_done.is_multiple_of(config.eval.every)
            && self.state.rl_done < config.rl.steps
        {
            let evaluation = self.evaluate(&policy.engine)?;
            row.push(("eval_accuracy", evaluation.accuracy()));
            if let Some(Interval { low, high, .. }) = evaluation.interval() {
                row.extend([("eval_low", low), ("eval_high", high)]);
            }
        }
        let tokens = batch.iter().flat_map(|g| &g.responses).map(|r| r.len()).sum::<usize>() as f64;
        let per_second = tokens / seconds;
        self.dir.record(
            "rl",
            step,
            &row,
            &timing(seconds, sample_seconds, seconds - sample_seconds, per_second),
        )?;
        self.keep_a_sample(step, &exercises, &batch, &earned)?;
        let of = |name: &str| facts.iter().find(|(n, _)| *n == name).map_or(f64::NAN, |(_, x)| *x);
        self.step_done(self.state.rl_done, &[("reward", of("reward")), ("KL", of("kl"))], tokens as usize);
        Ok(())
    }

    /// The problems of a step and their responses. With dynamic sampling, groups that agree are replaced, a few times at most.
    fn sample<E: Engine>(&self, policy: &mut LlmPolicy<E>, step: u64) -> Result<Batch, TrainError> {
        let rl = &self.config.rl;
        let rounds = if rl.dynamic_sampling { MAX_ROUNDS } else { 1 };
        let (mut kept, mut agreeing) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let wanted = rl.prompts_per_step as u64;
            let numbers = (step * MAX_ROUNDS + round) * wanted..(step * MAX_ROUNDS + round + 1) * wanted;
            let fresh = numbers.map(|i| self.exercise(i)).collect::<Result<Vec<_>, TrainError>>()?;
            let groups =
                policy.sample(&fresh, rl.group_size).map_err(|source| TrainError::Rl { step, source })?;
            for ((exercise, group), earned) in fresh.into_iter().zip(groups).zip(policy.earned.drain(..)) {
                // Right and wrong decide, not what else is rewarded.
                let known: Vec<f64> = earned.iter().filter_map(Earned::accuracy).collect();
                let agrees = rl.dynamic_sampling && all_equal(&known);
                if agrees { &mut agreeing } else { &mut kept }.push((exercise, group, earned));
            }
            if kept.len() >= rl.prompts_per_step {
                break;
            }
        }
        let mut batch = Batch::default();
        for (exercise, group, earned) in filled(kept, agreeing, rl.prompts_per_step) {
            batch.exercises.push(exercise);
            batch.groups.push(group);
            batch.earned.push(earned);
        }
        Ok(batch)
    }

    /// The mean of each component of the reward over the responses that it has a value for; a component that is stuck is told of once.
    fn reward_columns(&mut self, earned: &[Vec<Earned>]) -> Vec<(&'static str, f64)> {
        let reward = &self.config.reward;
        let mut columns = Vec::new();
        for (i, component) in reward.active() {
            let values = || earned.iter().flatten().map(|e| e.parts[i]);
            if let Some(stuck) = self.state.watch.step(component.name, values(), reward.stuck_steps) {
                self.say(&stuck.to_string());
            }
            let known: Vec<f64> = values().flatten().collect();
            // Nothing, where there is no value: an empty field.
            columns.extend(stats::mean(&known).map(|mean| (component.column, mean)));
        }
        columns.push((STUCK, self.state.watch.stuck(reward.stuck_steps) as f64));
        columns
    }

    fn exercise(&self, number: u64) -> Result<Exercise, TrainError> {
        let problem = self.problems.problem(Stage::Reinforced, number).map_err(TrainError::Problem)?;
        Ok(Exercise { prompt: problem.encode(&self.tokens)?.ids().to_vec(), gold: problem.gold, number })
    }

    fn warn_when_dull(&mut self, batch: &[Group]) {
        let metrics = methods::batch_metrics(batch);
        // A critic, or a baseline of the whole batch, teaches in groups that agree, too.
        let taught =
            || self.configured.method.credit(batch).iter().any(|c| c.advantages.iter().any(|a| *a != 0.0));
        let dull = metrics.zero_variance_groups == metrics.groups && !taught();
        self.state.dull_in_a_row = if dull { self.state.dull_in_a_row + 1 } else { 0 };
        if self.state.dull_in_a_row == DULL_STEPS && !self.state.dull_warned {
            self.state.dull_warned = true;
            self.say(&format!(
                "for {DULL_STEPS} steps every group's rewards were equal, so nothing was learned: the task may be too hard or too \
                 easy for this model, the grader may not find its answers (see samples.jsonl), or responses are cut off before them"
            ));
        }
    }

    fn keep_a_sample(
        &mut self,
        step: u64,
        exercises: &[Exercise],
        batch: &[Group],
        earned: &[Vec<Earned>],
    ) -> Result<(), TrainError> {
        let (Some(exercise), Some(group)) = (exercises.first(), batch.first()) else { return Ok(()) };
        let names: Vec<_> = self.config.reward.active().map(|(i, c)| (i, c.name)).collect();
        for (response, earned) in group.responses.iter().zip(earned.iter().flatten()).take(2) {
            let rewards: BTreeMap<&str, Option<f64>> =
                names.iter().map(|(i, name)| (*name, earned.parts[*i])).collect();
            let sample = serde_json::json!({
                "step": step,
                "prompt": self.tokens.text(&exercise.prompt)?,
                "response": self.tokens.text(&response.tokens)?,
                "reward": response.reward,
                "rewards": rewards,
                "truncated": response.truncated,
            });
            self.dir.sample(&sample)?;
        }
        Ok(())
    }

    fn save<E: Engine>(&mut self, engine: &E) -> Result<Checkpoint, TrainError> {
        let (shape, adapter) = (self.shape.clone(), engine.adapter()?);
        // What RL starts from after supervised learning is in no other place than this checkpoint.
        let (sft, rl) = (self.config.sft.steps, self.config.rl.steps);
        let own = rl > 0 && sft > 0 && self.state.sft_done == sft;
        let base = match &self.config.model {
            ModelSource::Checkpoint(path) if !own => path.display().to_string(),
            _ => "../reference".to_owned(),
        };
        let state = serde_json::to_vec_pretty(&self.state).expect("a state has a JSON form");
        self.dir.save(self.state.done(), |writer| {
            let directory = writer.directory().to_owned();
            let put = |parameters: &Parameters<f32>, directory: &Path| {
                weights::save(directory, &shape, parameters, weights::SaveDtype::F32, usize::MAX)
            };
            // One after the other, so that of a large model there are no two copies at once.
            put(&*engine.parameters()?, &directory).map_err(TrainError::Save)?;
            let frozen = engine.frozen()?.map(|frozen| put(&frozen, &directory.join("reference")));
            let referred = frozen.transpose().map_err(TrainError::Save)?.is_some();
            if let Some((settings, tensors)) = &adapter {
                let directory = directory.join("adapter");
                lora::save(&directory, settings, tensors, &base).map_err(TrainError::Save)?;
                for file in [lora::CONFIG_FILE, lora::WEIGHTS_FILE] {
                    writer.adopt(&format!("adapter/{file}"))?;
                }
            }
            for file in ["model.safetensors", "config.json"] {
                writer.adopt(file)?;
                if referred {
                    writer.adopt(&format!("reference/{file}"))?;
                }
            }
            writer.file("optimiser.safetensors", &engine.optimiser()?)?;
            for (name, bytes) in self.tokens.files() {
                writer.file(name, bytes)?;
            }
            Ok(writer.file("state.json", &state)?)
        })
    }

    fn finish(&mut self, model: &dyn Sampler, checkpoint: &Path) -> Result<Summary, TrainError> {
        let after = match self.state.before {
            Some(before) if self.config.rl.steps == 0 => before, // of these very weights
            _ => self.evaluate(model)?,
        };
        if self.config.rl.steps > 0 {
            self.say(&format!("held-out accuracy after RL:  {}", shown(&after)));
        }
        let before = self.state.before.unwrap_or(after);
        let ends = |e: &Evaluation| e.interval().map_or([f64::NAN; 2], |i| [i.low, i.high]);
        let summary = Summary {
            method: self.configured.spec.title.to_owned(),
            settings: self.configured.settings.entries().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            seed: self.config.seed,
            accuracy_before: before.accuracy(),
            accuracy_before_interval: ends(&before),
            length_before: before.mean_length,
            accuracy_after: after.accuracy(),
            accuracy_after_interval: ends(&after),
            n: after.n,
            parameters: self.parameters(),
            steps: [self.config.sft.steps, self.config.rl.steps],
            seconds: self.started.elapsed().as_secs_f64(),
            checkpoint: checkpoint.to_owned(),
        };
        self.dir.finish(&summary)?;
        Ok(summary)
    }
}

/// What supervised learning leaves.
enum Left<E> {
    /// What RL starts from.
    Weights(Parameters<f32>),
    /// Where no RL follows, everything: the moments and the adapter are what the run found.
    Engine(E),
}

/// What a step learns from, group by group.
#[derive(Default)]
struct Batch {
    exercises: Vec<Exercise>,
    groups: Vec<Group>,
    earned: Vec<Vec<Earned>>,
}

/// The first `wanted` of `kept`, made up from those that were passed over where they are too few.
fn filled<T>(kept: Vec<T>, passed_over: Vec<T>, wanted: usize) -> Vec<T> {
    kept.into_iter().chain(passed_over).take(wanted).collect()
}

fn shown(e: &Evaluation) -> String {
    match e.interval() {
        Some(Interval { low, high, .. }) => {
            format!("{:.3} (95 % interval {low:.3} to {high:.3}, {} of {})", e.accuracy(), e.correct, e.n)
        }
        None => "no response could be graded".to_owned(),
    }
}

fn timing(seconds: f64, sample: f64, update: f64, per_second: f64) -> [(&'static str, f64); 5] {
    [
        ("seconds", seconds),
        ("sample_seconds", sample),
        ("update_seconds", update),
        ("tokens_per_second", per_second),
        ("peak_rss_mib", crate::plan::memory::peak_rss_mib().unwrap_or(f64::NAN)),
    ]
}

/// Columns that describe a batch.
fn batch_columns(batch: &[Group], earned: &[Vec<Earned>], metrics: &Metrics) -> Vec<(&'static str, f64)> {
    let responses: Vec<_> = batch.iter().flat_map(|g| &g.responses).collect();
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let rewards: Vec<f64> = responses.iter().filter_map(|r| r.reward).collect();
    let entropies: Vec<f64> =
        responses.iter().flat_map(|r| r.evidence.entropies.iter().flatten().copied()).collect();
    let from_metrics = metrics.entries();
    let of = |name: &str| from_metrics.iter().find(|(n, _)| *n == name).map_or(f64::NAN, |(_, x)| *x);
    let names = [
        "kl",
        "ratio_mean",
        "ratio_max",
        "trace_ratio_max",
        "clip_fraction_low",
        "clip_fraction_high",
        "saturated_fraction",
        "groups",
        "zero_variance_groups",
        "ungraded",
    ];
    let mut out = vec![
        ("tokens", responses.iter().map(|r| r.len()).sum::<usize>() as f64),
        ("reward", mean(rewards)),
        ("accuracy", mean(earned.iter().flatten().filter_map(Earned::accuracy).collect())),
        ("entropy", mean(entropies)),
        ("length", mean(responses.iter().map(|r| r.len() as f64).collect())),
        ("truncated", mean(responses.iter().map(|r| f64::from(r.truncated)).collect())),
    ];
    out.extend(names.map(|name| (name, of(name))));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_agree_only_make_up_the_number() {
        assert_eq!(filled(vec![1, 2, 3], vec![10, 11], 2), [1, 2]);
        assert_eq!(filled(vec![1], vec![10, 11, 12], 3), [1, 10, 11]);
        assert_eq!(filled(vec![], vec![10], 1), [10]);
    }
}
