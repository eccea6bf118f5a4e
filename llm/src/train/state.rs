//! What a run remembers beside weights and moments, and what it continues from.

use std::path::Path;

use grpo_lambda_decoder::model::weights::{self, Parameters};
use serde::{Deserialize, Serialize};

use super::error::TrainError;
use super::metrics::{StepMetrics, Timing, reward_columns};
use super::open::Inputs;
use super::summary::Summary;
use crate::config::Config;
use crate::eval::Evaluation;
use crate::problems::Problems;
use crate::reward::Watch;
use crate::run::progress::say;
use crate::run::{Checkpoint, Columns, Opened, RunDir};

const FILE: &str = "state.json";

/// Where a run stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct State {
    pub(super) sft_done: u64,
    pub(super) rl_done: u64,
    pub(super) skipped_in_a_row: u64,
    pub(super) dull_in_a_row: u64,
    /// Once a run is enough: a policy that collapsed would repeat it every few steps.
    pub(super) dull_warned: bool,
    #[serde(default)]
    pub(super) watch: Watch,
    pub(super) before: Option<Evaluation>,
    /// Where it computes: see [`grpo_lambda_gpu::select::Chosen::describe`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) on: Option<String>,
    /// What identifies the rows of the data set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
}

impl State {
    pub(super) fn done(&self) -> u64 {
        self.sft_done + self.rl_done
    }

    /// As the file `state.json` of a checkpoint.
    pub(super) fn to_file(&self) -> (&'static str, Vec<u8>) {
        (FILE, serde_json::to_vec_pretty(self).expect("a state has a JSON form"))
    }

    /// That of a checkpoint, which must have met the same rows.
    fn read(checkpoint: &Checkpoint, problems: &Problems) -> Result<State, TrainError> {
        let refused = |problem: String| TrainError::State { path: checkpoint.path().join(FILE), problem };
        let state: State =
            serde_json::from_slice(&checkpoint.read(FILE)?).map_err(|e| refused(e.to_string()))?;
        let now = problems.fingerprint();
        if state.data == now {
            return Ok(state);
        }
        let shown = |data: &Option<String>| data.clone().unwrap_or_else(|| "none".to_owned());
        Err(refused(format!(
            "the rows of task.data are not those this run began with (checksum {}, not {}); put them back, or start another run",
            shown(&now),
            shown(&state.data)
        )))
    }
}

/// A run directory that is open, and where its run stands.
pub(super) struct Position {
    pub(super) dir: RunDir,
    pub(super) state: State,
    /// The latest complete one; nothing for a fresh run.
    pub(super) checkpoint: Option<Checkpoint>,
}

impl Position {
    /// Opens `directory` for a run.
    pub(super) fn open(
        config: &Config,
        directory: &Path,
        command: &str,
        problems: &Problems,
    ) -> Result<Position, TrainError> {
        let metrics = [StepMetrics::COLUMNS, &reward_columns(config)].concat();
        let columns = Columns { command, metrics: &metrics, timing: Timing::COLUMNS };
        let Opened { run: dir, checkpoint, damaged } =
            RunDir::open(directory, config, columns).map_err(TrainError::Open)?;
        for path in damaged {
            say(&format!("{} is not complete and was passed over", path.display()));
        }
        let state = match &checkpoint {
            Some(c) => State::read(c, problems)?,
            None => State { data: problems.fingerprint(), ..State::default() },
        };
        Ok(Position { dir, state, checkpoint })
    }

    /// The weights to continue with: those of the checkpoint, or else those of the inputs.
    pub(super) fn weights(&self, inputs: &mut Inputs) -> Result<Parameters<f32>, TrainError> {
        let Some(c) = &self.checkpoint else { return Ok(std::mem::take(&mut inputs.parameters)) };
        c.verify().map_err(TrainError::Open)?;
        say(&format!("continuing from step {} in {}", c.step(), c.path().display()));
        Ok(weights::load(c.path(), &inputs.shape)?)
    }

    /// What the run found, if it is done.
    pub(super) fn finished(&self, config: &Config) -> Option<Summary> {
        let checkpoint = self.checkpoint.as_ref()?;
        let all = self.state.done() == config.sft.steps + config.rl.steps;
        self.state.before.filter(|_| all)?;
        let summary: Summary = serde_json::from_value(self.dir.summary().ok()??).ok()?;
        say("the run is done; this is what it found");
        Some(Summary { checkpoint: checkpoint.path().to_owned(), ..summary })
    }
}
