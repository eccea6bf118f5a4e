//! A training run: supervised learning, evaluation, reinforcement learning, evaluation; resumable at every checkpoint.
//!
//! Everything a step does is a function of the configuration, the step's number and the state in the last checkpoint, so
//! a run that was killed continues bit for bit as if it had not been.
//!
//! | module | holds |
//! | --- | --- |
//! | `open` | what a run computes with, checked before it has a directory |
//! | `model` | the tokenizer and the weights it starts from |
//! | `state` | where it stands, and what it continues from |
//! | `stage` | how an engine begins a stage |
//! | `sft` | supervised learning |
//! | `rl` | reinforcement learning: a step from its prompts to its row |
//! | `sampling` | the rollout of a step, with dynamic sampling |
//! | `evaluation` | held-out accuracy |
//! | `warnings` | what a run says about steps that teach nothing |
//! | `metrics` | what it logs |
//! | `samples` | the responses it keeps |
//! | `checkpoint` | what a checkpoint holds |
//! | `summary` | what a finished run says |
//! | `notes` | lines for people |
//! | `divergence` | rates and policies that no run survives |
//! | `error` | what ends it early |

mod checkpoint;
mod divergence;
mod error;
mod evaluation;
mod metrics;
mod model;
mod notes;
mod open;
mod rl;
mod samples;
mod sampling;
mod sft;
mod stage;
mod state;
mod summary;
mod warnings;

use std::path::Path;
use std::time::Instant;

use grpo_lambda::methods::Configured;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{Decoder, Error, ModelConfig as Shape};
use grpo_lambda_gpu::select::ComputeDevice;

use crate::config::{Config, ConfigError};
use crate::input::tokens::ModelTokenizer;
use crate::problems::Problems;
use crate::remote::{RemoteEngine, Server};
use crate::run::progress::Progress;
use crate::run::{Checkpoint, RunDir, stop};
use crate::step::engine::{CpuEngine, Engine, GpuEngine, TrainingSetup};
use crate::step::evidence::EvidenceRequest;
use crate::team::{Shards, Team, TeamEngine, TeamError};

pub use divergence::unusual_rates;
pub use error::TrainError;
pub use model::{initial_model, tokens, with_located_model};
pub use open::device;
pub use sampling::training_prompt;
pub use sft::examples;
pub use summary::RunSummary;

use open::Inputs;
use stage::EngineFactory;
use state::{Position, RunState};

/// Runs `config` in `directory`, from the start or from its latest checkpoint, and returns its summary.
///
/// # Errors
/// [`TrainError`]; everything up to the last checkpoint is kept.
pub fn train(config: &Config, directory: &Path, command: &str) -> Result<RunSummary, TrainError> {
    train_with(&Team::default(), config, directory, command)
}

/// [`train`] with a team, of which this process is the leader.
///
/// # Errors
/// As [`train`].
pub fn train_with(
    team: &Team,
    config: &Config,
    directory: &Path,
    command: &str,
) -> Result<RunSummary, TrainError> {
    train_in(team, device(config)?, config, directory, command)
}

/// [`train`] on this device, whatever the configuration says of devices.
///
/// # Errors
/// As [`train`].
pub fn train_on(
    chosen: ComputeDevice,
    config: &Config,
    directory: &Path,
    command: &str,
) -> Result<RunSummary, TrainError> {
    train_in(&Team::default(), chosen, config, directory, command)
}

fn train_in(
    team: &Team,
    chosen: ComputeDevice,
    config: &Config,
    directory: &Path,
    command: &str,
) -> Result<RunSummary, TrainError> {
    check_team(team, &chosen, config)?;
    stop::listen();
    let started = Instant::now();
    let config = &with_located_model(config)?;
    let mut inputs = Inputs::open(config, &chosen, directory)?;
    let position = Position::open(config, directory, command, &inputs.problems)?;
    let parameters = position.weights(&mut inputs)?;
    if let Some(summary) = position.finished(config) {
        return Ok(summary);
    }
    let decided = inputs.decided.clone();
    let (mut run, checkpoint) = Run::new(&decided, inputs, position, started);
    run.announce(&chosen);
    run.note_device(&chosen);
    match chosen {
        ComputeDevice::Cpu if config.shards == 1 => run.sampled(parameters, checkpoint, &cpu_engine),
        ComputeDevice::Cpu => run.sampled(parameters, checkpoint, &|shape, parameters, start| {
            TeamEngine::new(Decoder::new(shape.clone(), parameters)?, start, team, config.shards)
        }),
        ComputeDevice::Cuda(card, dtype) => {
            run.sampled(parameters, checkpoint, &|shape, parameters, start| {
                GpuEngine::new(&card, dtype, shape, &parameters, start)
            })
        }
    }
}

fn cpu_engine(shape: &Shape, parameters: Parameters<f32>, start: TrainingSetup) -> Result<CpuEngine, Error> {
    CpuEngine::new(Decoder::new(shape.clone(), parameters)?, start)
}

/// Refuses a team that cannot share the run's batches.
fn check_team(team: &Team, chosen: &ComputeDevice, config: &Config) -> Result<(), TrainError> {
    let refused = |e: TeamError| TrainError::Config(ConfigError::Conflict(e.to_string()));
    Shards::new(config.shards, team.size()).map_err(refused)?;
    match chosen {
        ComputeDevice::Cuda(card, _) if config.shards > 1 => Err(refused(TeamError::OnCard(card.name()))),
        _ => Ok(()),
    }
}

/// A run under way.
struct Run<'a> {
    config: &'a Config,
    configured: Configured,
    tokens: ModelTokenizer,
    problems: Problems,
    request: Option<EvidenceRequest>,
    dir: RunDir,
    state: RunState,
    shape: Shape,
    /// The checkpoint with the frozen weights of the stage under way, once there is one.
    stored_reference: Option<Checkpoint>,
    /// Of the stage under way.
    progress: Option<Progress>,
    started: Instant,
}

impl<'a> Run<'a> {
    fn new(
        config: &'a Config,
        inputs: Inputs,
        position: Position,
        started: Instant,
    ) -> (Self, Option<Checkpoint>) {
        let Inputs { configured, tokens, shape, problems, request, .. } = inputs;
        let Position { dir, state, checkpoint } = position;
        let (stored_reference, progress) = (None, None);
        let run = Run {
            config,
            configured,
            tokens,
            problems,
            request,
            dir,
            state,
            shape,
            stored_reference,
            progress,
            started,
        };
        (run, checkpoint)
    }

    /// Runs the remaining stages, on engines that `new_engine` builds and that a server samples for where `rollout.engine` names one.
    fn sampled<E: Engine>(
        &mut self,
        parameters: Parameters<f32>,
        from: Option<Checkpoint>,
        new_engine: &EngineFactory<'_, E>,
    ) -> Result<RunSummary, TrainError> {
        let Some(rollout) = &self.config.rollout else { return self.stages(parameters, from, new_engine) };
        let (run, limit) = (self.dir.path().to_owned(), self.config.rl.max_logp_error);
        self.stages(parameters, from, &|shape, parameters, start| {
            let server =
                Server::connect(rollout, shape.vocab_size).map_err(|e| Error::Unsupported(e.to_string()))?;
            Ok(RemoteEngine::new(new_engine(shape, parameters, start)?, server, &run, limit))
        })
    }

    /// Runs the remaining stages, on engines that `new_engine` builds.
    fn stages<E: Engine>(
        &mut self,
        parameters: Parameters<f32>,
        from: Option<Checkpoint>,
        new_engine: &EngineFactory<'_, E>,
    ) -> Result<RunSummary, TrainError> {
        let start_from = self.run_sft(parameters, from.as_ref(), new_engine)?;
        let (engine, checkpoint) = self.run_rl(start_from, from, new_engine)?;
        self.finish(&engine, checkpoint.path())
    }
}
