//! A training run: supervised learning, evaluation, reinforcement learning, evaluation; resumable at every checkpoint.
//!
//! Everything a step does is a function of the configuration, the step's number and the state in the last checkpoint, so
//! a run that was killed continues bit for bit as if it had not been.
//!
//! | module | holds |
//! | --- | --- |
//! | [`open`] | what a run computes with, checked before it has a directory |
//! | [`model`] | the tokenizer and the weights it starts from |
//! | [`state`] | where it stands, and what it continues from |
//! | [`stage`] | how an engine begins a stage |
//! | [`sft`] | supervised learning |
//! | [`rl`] | reinforcement learning: a step from its prompts to its row |
//! | [`sampling`] | the rollout of a step, with dynamic sampling |
//! | [`evaluation`] | held-out accuracy |
//! | [`warnings`] | what a run says about steps that teach nothing |
//! | [`metrics`] | what it logs |
//! | [`samples`] | the responses it keeps |
//! | [`checkpoint`] | what a checkpoint holds |
//! | [`summary`] | what a finished run says |
//! | [`notes`] | lines for people |
//! | [`error`] | what ends it early |

mod checkpoint;
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
use grpo_lambda_decoder::model::{Config as Shape, Decoder};
use grpo_lambda_gpu::select::Chosen;

use crate::config::Config;
use crate::input::tokens::Tokens;
use crate::problems::Problems;
use crate::run::progress::Progress;
use crate::run::{Checkpoint, RunDir};
use crate::step::engine::{Cpu, Engine, Gpu};
use crate::step::evidence::Question;

pub use error::TrainError;
pub use model::{initial_model, tokens};
pub use open::device;
pub use summary::Summary;

use open::Inputs;
use stage::Starter;
use state::{Position, State};

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
    let mut inputs = Inputs::open(config, &chosen, directory)?;
    let position = Position::open(config, directory, command, &inputs.problems)?;
    let parameters = position.weights(&mut inputs)?;
    if let Some(summary) = position.finished(config) {
        return Ok(summary);
    }
    let (mut run, checkpoint) = Run::new(config, inputs, position, started);
    run.announce(&chosen);
    run.note_device(&chosen);
    match chosen {
        Chosen::Cpu => run.stages(parameters, checkpoint, &|shape, parameters, start| {
            Cpu::start(Decoder::new(shape.clone(), parameters)?, start)
        }),
        Chosen::Cuda(card, dtype) => run.stages(parameters, checkpoint, &|shape, parameters, start| {
            Gpu::start(&card, dtype, shape, &parameters, start)
        }),
    }
}

/// A run under way.
struct Run<'a> {
    config: &'a Config,
    configured: Configured,
    tokens: Tokens,
    problems: Problems,
    question: Option<Question>,
    dir: RunDir,
    state: State,
    shape: Shape,
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
        let Inputs { configured, tokens, shape, problems, question, .. } = inputs;
        let Position { dir, state, checkpoint } = position;
        let progress = None;
        let run =
            Run { config, configured, tokens, problems, question, dir, state, shape, progress, started };
        (run, checkpoint)
    }

    /// What is left of the run, on the engines that `start` makes.
    fn stages<E: Engine>(
        &mut self,
        parameters: Parameters<f32>,
        from: Option<Checkpoint>,
        start: &Starter<'_, E>,
    ) -> Result<Summary, TrainError> {
        let left = self.supervised(parameters, from.as_ref(), start)?;
        let (engine, checkpoint) = self.reinforced(left, from, start)?;
        self.finish(&engine, checkpoint.path())
    }
}
