//! A training run: supervised learning, evaluation, reinforcement learning, evaluation; resumable at every checkpoint.
//!
//! Everything a step does is a function of the configuration, the step's number and the state in the last checkpoint, so
//! a run that was killed continues bit for bit as if it had not been.
//!
//! | module | holds |
//! | --- | --- |
//! | `session` | problems, tokens, rewards and settings of a run, and the steps on an engine |
//! | `engines` | who builds the engines |
//! | `open` | refusals before a run has a directory |
//! | `model` | the tokenizer and the weights it starts from |
//! | `state` | its place in the directory, and the state it continues from |
//! | `stages` | the two stages, step by step |
//! | `evaluation` | held-out accuracy, and the summary of a finished run |
//! | `notes` | lines for people, warnings and samples |
//! | `metrics` | the columns of its logs |
//! | `checkpoint` | the files of a checkpoint |
//! | `divergence` | rates and policies that no run survives |
//! | `error` | the errors that end it early |

mod checkpoint;
#[doc(hidden)]
pub mod divergence;
mod engines;
mod error;
mod evaluation;
#[doc(hidden)]
pub mod metrics;
mod model;
mod notes;
mod open;
#[doc(hidden)]
pub mod session;
mod stages;
mod state;

use std::path::Path;
use std::time::{Duration, Instant};

use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::select::{ComputeDevice, DevicePreference, NoCard, SelectError};

use crate::config::Config;
pub use crate::problems::Stage;
use crate::run::progress::{SharedProgress, say};
use crate::run::{self, Checkpoint, Claim, RunDir, stop};

pub use divergence::unusual_rates;
pub use engines::{EngineStart, Engines, Local, refuse_candle};
pub use error::{Result, TrainError};
pub use evaluation::RunSummary;
pub use model::{initial_model, tokens, with_located_model};
pub use open::{HeldOutLengths, check_fit, choose_device, device};
pub use session::Session;

use open::{refuse_elsewhere, try_reward_program};
use state::{Position, RunState};

/// Runs `config` in a directory, from the start or from its latest checkpoint, and returns its summary. If it `extends` the run there, that gets
/// the numbers of steps of `config` first.
///
/// # Errors
/// [`TrainError`]; everything up to the last checkpoint is kept, and an extension that is refused leaves the run as it was.
pub fn train(
    engines: &dyn Engines,
    config: &Config,
    place: (&Path, bool),
    command: &str,
) -> Result<RunSummary> {
    match train_on(device(config)?, engines, config, place, command) {
        // The card was found wrong on the run's own model.
        Err(TrainError::Device(SelectError::NoCard(NoCard::Unusable(error))))
            if config.device == DevicePreference::Auto && config.dtype != Some(Dtype::Bf16) =>
        {
            say(&format!("device = auto: the CPU is used: {error}"));
            train_on(ComputeDevice::Cpu, engines, config, place, command)
        }
        done => done,
    }
}

/// [`train`] on this device, whatever the configuration says about devices.
pub fn train_on(
    device: ComputeDevice,
    engines: &dyn Engines,
    config: &Config,
    (directory, extends): (&Path, bool),
    command: &str,
) -> Result<RunSummary> {
    engines.check(config, &device)?;
    refuse_elsewhere(config, &device)?;
    stop::listen();
    let started = Instant::now();
    let config = with_located_model(config)?;
    let claim = RunDir::claim(directory, &config, extends).map_err(TrainError::Open)?;
    let grows = matches!(claim, Claim::Extended(_));
    let begins = grows || !run::is_done(directory);
    let (mut session, parameters) = Session::open_on(device, engines, &config, begins)?;
    if begins {
        try_reward_program(&session.config, &session.problems, &session.tokens)?;
        session.connect(directory)?;
    }
    let asked = (&session.problems, &session.tokens, &session.shape);
    // The last thing before the run is continued, and after it was opened as it is: what is refused changes no run.
    if grows {
        let stored = Config::read(&directory.join(run::CONFIG))?;
        drop(Position::open(&stored, directory, command, asked)?);
        RunDir::extend(directory, &config).map_err(TrainError::Open)?;
    }
    let position = Position::open(&config, directory, command, asked)?;
    let parameters = position.weights(parameters, &session.shape)?;
    if let Some(summary) = position.finished(&config) {
        return Ok(summary);
    }
    if !begins {
        session.connect(directory)?;
    }
    let Position { dir, state, checkpoint } = position;
    let (stored_reference, progress) = (None, None);
    let evaluated = Duration::ZERO;
    let mut run = Run { session: &session, dir, state, stored_reference, progress, evaluated, started };
    run.announce();
    run.note_device();
    run.stages(parameters, checkpoint)
}

/// A run under way.
struct Run<'a> {
    session: &'a Session<'a>,
    dir: RunDir,
    state: RunState,
    /// The checkpoint with the frozen weights of the stage under way, once there is one.
    stored_reference: Option<Checkpoint>,
    /// The progress line of the stage under way.
    progress: Option<SharedProgress>,
    /// The time that the last evaluation took.
    evaluated: Duration,
    started: Instant,
}

impl Run<'_> {
    /// Runs the remaining stages.
    fn stages(&mut self, parameters: Parameters<f32>, from: Option<Checkpoint>) -> Result<RunSummary> {
        let start_from = self.run_sft(parameters, from.as_ref())?;
        let (engine, checkpoint) = self.run_rl(start_from, from)?;
        self.finish(engine.as_ref(), checkpoint.path())
    }
}
