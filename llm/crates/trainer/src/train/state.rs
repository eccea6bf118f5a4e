//! The state of a run besides weights and moments, and its place in the run directory.

use std::collections::BTreeMap;
use std::path::Path;

use grpo_lambda_decoder::model::ModelConfig as Shape;
use grpo_lambda_decoder::model::weights::{self, Parameters};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::{Result, TrainError};
use super::evaluation::RunSummary;
use super::metrics::{StepMetrics, Timing, further_columns};
use crate::config::Config;
use crate::eval::Evaluation;
use crate::eval::answers::{HeldOutAnswers, Moment};
use crate::input::tokens::ModelTokenizer;
use crate::problems::Problems;
use crate::reward::StuckDetector;
use crate::run::progress::say;
use crate::run::{Best, Checkpoint, DamagedCheckpoint, LogColumns, OpenedRun, RunDir, RunError};

const FILE: &str = "state.json";

/// The progress of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct RunState {
    pub(super) sft_done: u64,
    pub(super) rl_done: u64,
    pub(super) skipped_in_a_row: u64,
    #[serde(rename = "dull_in_a_row")]
    pub(super) no_signal_in_a_row: u64,
    /// The warning is given once per run: a collapsed policy would repeat it every few steps.
    #[serde(rename = "dull_warned")]
    pub(super) no_signal_warned: bool,
    #[serde(default, rename = "watch")]
    pub(super) stuck: StuckDetector,
    pub(super) before: Option<Evaluation>,
    /// The best evaluation so far, those that came after it, and whether they were too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) best: Option<Best>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) evaluations_since_best: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) stopped_early: bool,
    /// Mean entropy of a token in the first and in the last RL step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) entropies: Option<[f64; 2]>,
    /// The adaptive coefficient of the entropy bonus in the next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) entropy_coef: Option<f64>,
    /// The device: see [`grpo_lambda_gpu::select::ComputeDevice::describe`].
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "on")]
    pub(super) device: Option<String>,
    /// Checksum of the rows of the dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    /// Checksum of the dataset's first training prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompts: Option<String>,
    /// The ids that end a response, the one to train with first.
    #[serde(default)]
    end_tokens: Vec<u32>,
    /// The [`grpo_lambda_grade::REVISION`] that gives the rewards; 0 in a run of an earlier version, which did not record it.
    #[serde(default)]
    grader: u32,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl RunState {
    pub(super) fn done(&self) -> u64 {
        self.sft_done + self.rl_done
    }

    /// Takes the mean entropy of a step's tokens.
    pub(super) fn note_entropy(&mut self, entropy: Option<f64>) {
        let Some(last) = entropy.filter(|x| x.is_finite()) else { return };
        let first = self.entropies.map_or(last, |[first, _]| first);
        self.entropies = Some([first, last]);
    }

    /// The name and contents of the file `state.json` of a checkpoint.
    pub(super) fn to_file(&self) -> (&'static str, Vec<u8>) {
        (FILE, serde_json::to_vec_pretty(self).expect("a state has a JSON form"))
    }

    /// The state of a run that begins on these problems.
    fn fresh(problems: &Problems, tokens: &ModelTokenizer) -> Result<RunState> {
        let prompts = problems.prompts(tokens).map_err(TrainError::Problem)?;
        Ok(RunState {
            data: problems.fingerprint(),
            prompts,
            end_tokens: tokens.eos().to_vec(),
            grader: grpo_lambda_grade::REVISION,
            ..RunState::default()
        })
    }

    /// Reads the state of a checkpoint of a run, which must have met the rows of the state `now`, asked, ended and graded in the same way.
    fn read(checkpoint: &Checkpoint, now: &RunState) -> Result<RunState> {
        let path = checkpoint.path().join(FILE);
        let refused = |problem| TrainError::Run(RunError::Damaged { path: path.clone(), problem });
        let state: RunState =
            serde_json::from_slice(&checkpoint.read(FILE)?).map_err(|e| refused(e.to_string()))?;
        let shown = |checksum: &Option<String>| checksum.clone().unwrap_or_else(|| "none".to_owned());
        let changed = |what: &str, now: &Option<String>, then: &Option<String>| {
            Err(refused(format!(
                "{what} since this run began (checksum {}, not {}), or this version reads them otherwise; restore them, or start another run",
                shown(now),
                shown(then)
            )))
        };
        let other_version = |what: String| {
            Err(refused(format!("{what}; go on with the version that began it, or start another run")))
        };
        if state.grader != now.grader {
            return other_version(format!(
                "this version grades by revision {} of the grader, not {} as when this run began",
                now.grader, state.grader
            ));
        }
        if state.end_tokens != now.end_tokens {
            return other_version(format!(
                "this version ends responses at the tokens {:?}, not {:?} as when this run began",
                now.end_tokens, state.end_tokens
            ));
        }
        if state.data != now.data {
            return changed("the rows of task.data have changed", &now.data, &state.data);
        }
        if state.prompts != now.prompts {
            let what = "the prompts made of task.data (template, tokenizer, order of the rows) have changed";
            return changed(what, &now.prompts, &state.prompts);
        }
        Ok(state)
    }
}

/// Refuses to go on from a checkpoint whose model files, but for the weights, are not those that `model.checkpoint` has now.
fn refuse_other_model(checkpoint: &Checkpoint, (shape, tokens): (&Shape, &ModelTokenizer)) -> Result<()> {
    let path = checkpoint.path();
    let theirs = ModelTokenizer::load(path)?;
    let files = |tokens: &ModelTokenizer| -> BTreeMap<String, Vec<u8>> {
        tokens.files().map(|(name, bytes)| (name.to_owned(), bytes.to_owned())).collect()
    };
    let fields = |shape: &Shape| -> BTreeMap<String, Value> {
        let mut fields: BTreeMap<_, _> = serde_json::from_str(&shape.to_json()).unwrap_or_default();
        // A checkpoint is f32 whatever it began with.
        fields.remove("torch_dtype");
        fields
    };
    let changed = different(&fields(&Shape::load(path)?), &fields(shape));
    let changed = changed.map(|field| format!("`{field}` of config.json"));
    let changed = changed.or_else(|| different(&files(&theirs), &files(tokens)));
    match changed {
        None => Ok(()),
        Some(what) => {
            let problem = format!(
                "{what} in model.checkpoint has changed since this run began; restore it, or start another run"
            );
            Err(RunError::Damaged { path: path.to_owned(), problem }.into())
        }
    }
}

/// The first key whose values differ.
fn different<T: PartialEq>(a: &BTreeMap<String, T>, b: &BTreeMap<String, T>) -> Option<String> {
    a.keys().chain(b.keys()).find(|key| a.get(*key) != b.get(*key)).cloned()
}

/// An open run directory, with the progress of its run.
pub(super) struct Position {
    pub(super) dir: RunDir,
    pub(super) state: RunState,
    /// The latest complete one; `None` for a fresh run.
    pub(super) checkpoint: Option<Checkpoint>,
}

impl Position {
    /// Opens `directory` for a run.
    pub(super) fn open(
        config: &Config,
        directory: &Path,
        command: &str,
        (problems, tokens, shape): (&Problems, &ModelTokenizer, &Shape),
    ) -> Result<Position> {
        let metrics = [StepMetrics::COLUMNS, &further_columns(config)].concat();
        let columns = LogColumns { command, metrics: &metrics, timing: Timing::COLUMNS };
        let OpenedRun { run: mut dir, checkpoint, damaged } =
            RunDir::open(directory, config, columns).map_err(TrainError::Open)?;
        // Nothing of the run depends on them, but who goes on with a run is informed that its record was changed.
        HeldOutAnswers::read(directory, Moment::Start)?;
        HeldOutAnswers::read(directory, Moment::Latest)?;
        for DamagedCheckpoint { path, problem } in damaged {
            say(&format!("{} is incomplete and was skipped: {problem}", path.display()));
        }
        let fresh = RunState::fresh(problems, tokens)?;
        let mut state = match &checkpoint {
            Some(c) => {
                refuse_other_model(c, (shape, tokens))?;
                RunState::read(c, &fresh)?
            }
            None => fresh,
        };
        dir.settle_paths(config)?;
        let latest = checkpoint.as_ref().map_or(0, Checkpoint::step);
        state.best = dir.resume(latest, state.best, config.checkpoint.best).map_err(TrainError::Open)?;
        // A run that was given more steps after its end has not been evaluated at its new one.
        if state.sft_done < config.sft.steps {
            state.before = None;
        }
        Ok(Position { dir, state, checkpoint })
    }

    /// The weights to continue with: those of the checkpoint, or else the `initial` ones.
    pub(super) fn weights(&self, initial: Parameters<f32>, shape: &Shape) -> Result<Parameters<f32>> {
        let Some(c) = &self.checkpoint else { return Ok(initial) };
        drop(initial);
        c.verify().map_err(TrainError::Open)?;
        say(&format!("continuing from step {} in {}", c.step(), c.path().display()));
        Ok(weights::load(c.path(), shape)?)
    }

    /// The summary of a run that is done.
    pub(super) fn finished(&self, config: &Config) -> Option<RunSummary> {
        let checkpoint = self.checkpoint.as_ref()?;
        let all = self.state.stopped_early || self.state.done() == config.sft.steps + config.rl.steps;
        // Without the mark of its end the logs were cut to the checkpoint: the last evaluation is made again.
        let ended = self.dir.has_ended() || self.state.rl_done == 0;
        self.state.before.filter(|_| all && ended)?;
        let summary: RunSummary = serde_json::from_value(self.dir.summary().ok()??).ok()?;
        say("the run is already finished; its summary follows");
        Some(RunSummary { checkpoint: checkpoint.path().to_owned(), ..summary })
    }
}
