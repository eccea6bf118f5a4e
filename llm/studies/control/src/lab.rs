//! [`Lab`]: the session and the start that all runs of a seed share, and a run.

use std::path::{Path, PathBuf};

use grpo_lambda::methods::Method;
use grpo_lambda::settings::SettingError;
use grpo_lambda::systematic::Sets;
use grpo_lambda_decoder::generate::RolloutError;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{self, Decoder};
use grpo_lambda_decoder::optim::{AdamWSettings, StepOutcome};
use grpo_lambda_gpu::select::ComputeDevice;

use grpo_lambda_trainer::config::given::problem;
use grpo_lambda_trainer::config::{Config, ConfigError};
use grpo_lambda_trainer::input::tokens::TokenError;
use grpo_lambda_trainer::problems::TaskError;
use grpo_lambda_trainer::step::engine::{CpuEngine, TrainingSetup};
use grpo_lambda_trainer::step::{PolicyError, Rollout, StepContext, StepSettings, TrainingPrompt};
use grpo_lambda_trainer::train::{Local, Session, TrainError};
use serde::Deserialize;

/// The reason why an experiment stopped.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Train(Box<TrainError>),
    #[error(transparent)]
    Task(#[from] TaskError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Model(#[from] model::Error),
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Store(#[from] super::store::StoreFileError),
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error("step {step}: the gradient is not finite")]
    NotFinite { step: u64 },
    #[error(
        "rl.group_size = {size}: the mean advantage is over all 2^{size} outcomes of its random rewards; set {most} or fewer"
    )]
    RandomRewards { size: usize, most: usize },
    #[error("{file}: chooses no rate for {arm}, since its selection runs are not all there; run those first")]
    NoRate { file: String, arm: String },
}

/// Why a protocol cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    #[error("{path}: {source}; name a file like paper/protocols/{like}")]
    Unreadable { path: PathBuf, source: std::io::Error, like: &'static str },
    #[error("{path}: {problem}; it must have the fields of paper/protocols/{like}")]
    Fields { path: PathBuf, problem: String, like: &'static str },
    #[error("{path}: {source}")]
    Study { path: PathBuf, source: grpo_lambda_trials::StudyError },
    #[error("{path}: {field}: {source}")]
    Field { path: PathBuf, field: String, source: Box<LabError> },
    #[error("{path}: {field} = {value}: {why}")]
    Value { path: PathBuf, field: String, value: String, why: String },
    #[error("{path}: columns: {column}: no such column; it must be one of {known}")]
    Column { path: PathBuf, column: String, known: String },
    #[error("{path}: arm {arm}: {source}")]
    Arm { path: PathBuf, arm: String, source: Box<SettingError> },
    #[error(
        "{path}: arm {arm}: needs trees, completions or further rewards, and every arm here samples whole responses; choose another method"
    )]
    Sampling { path: PathBuf, arm: String },
}

impl ProtocolError {
    /// The text of a protocol of the kind of `like`.
    pub(crate) fn read(path: &Path, like: &'static str) -> Result<String, ProtocolError> {
        std::fs::read_to_string(path).map_err(|source| {
            let path = path.to_owned();
            ProtocolError::Unreadable { path, source, like }
        })
    }

    /// Refuses such a text that is no TOML or has other fields.
    pub(crate) fn fields(path: &Path, text: &str, like: &'static str, e: &toml::de::Error) -> ProtocolError {
        ProtocolError::Fields { path: path.to_owned(), problem: problem(text, e), like }
    }
}

impl From<TrainError> for LabError {
    fn from(e: TrainError) -> Self {
        LabError::Train(Box::new(e))
    }
}

/// The optimiser of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Optimiser {
    /// Plain gradient descent, with the gradient's norm clipped as AdamW's is.
    #[serde(rename = "SGD")]
    Sgd,
    #[default]
    AdamW,
}

/// Far above any gradient, so that AdamW without moments divides by it alone.
const SGD_EPSILON: f64 = 1e6;

impl Optimiser {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Optimiser::Sgd => "SGD",
            Optimiser::AdamW => "AdamW",
        }
    }

    /// Its settings, from those of AdamW, and the factor of the learning rate. `lr ε g / (|g| + ε)` is `lr g`, to a
    /// millionth of `|g|`.
    fn settings(self, adam: &AdamWSettings) -> (AdamWSettings, f64) {
        match self {
            Optimiser::AdamW => (adam.clone(), 1.0),
            Optimiser::Sgd => {
                let (beta1, beta2, weight_decay) = (0.0, 0.0, 0.0);
                let sgd = AdamWSettings { beta1, beta2, epsilon: SGD_EPSILON, weight_decay, ..adam.clone() };
                (sgd, SGD_EPSILON)
            }
        }
    }
}

/// The settings that those of a protocol come after: single-digit addition.
const ADDITION: &str = "task.kind=addition model.hidden=64 model.layers=2 model.heads=2 model.kv_heads=1 \
                        model.intermediate=128 adam.weight_decay=0.01 sft.steps=120 sft.worked_share=1 sft.lr=0.002 \
                        rl.steps=100 rl.prompts_per_step=16 rl.group_size=8 rl.warmup=5 rl.schedule=cosine \
                        rl.max_new_tokens=6 rl.lr=1";

/// The session and the start weights of a seed.
pub(crate) struct Lab {
    pub session: Session<'static>,
    /// After supervised learning.
    pub start: Decoder<f32>,
}

/// The record of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StepRecord {
    /// Mean length of a response, in tokens.
    pub length: f64,
    /// Norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Mean reward of a response, and of a token, which has that of its response (0 if there is none).
    pub reward: f64,
    pub token_reward: f64,
}

impl Lab {
    /// The laboratory of a seed with the settings of a protocol, and overrides of them.
    pub(crate) fn of_seed(seed: u64, settings: [&[String]; 2]) -> Result<Lab, LabError> {
        Lab::new(&Lab::config(seed, settings)?)
    }

    /// The configuration of [`Lab::of_seed`].
    pub(crate) fn config(seed: u64, settings: [&[String]; 2]) -> Result<Config, ConfigError> {
        let own = ADDITION.split(' ').map(str::to_owned).chain([format!("seed={seed}")]);
        let common = Config::resolve("tiny", &own.collect::<Vec<String>>())?;
        settings.into_iter().try_fold(common, |config, more| config.with(more))
    }

    /// Trains the start weights of a configuration by imitation.
    pub(crate) fn new(config: &Config) -> Result<Lab, LabError> {
        let (session, parameters) = Session::open_on(ComputeDevice::Cpu, &Local, config, true)?;
        let model = Decoder::new(session.shape.clone(), parameters)?;
        let mut engine = CpuEngine::new(model, TrainingSetup::new(config.sft_optimiser()))?;
        for step in 0..config.sft.steps {
            session.imitate(&mut engine, step)?;
        }
        Ok(Lab { session, start: engine.model })
    }

    /// An engine at the start weights, and the factor of its learning rate.
    pub(crate) fn engine(&self, optimiser: Optimiser) -> Result<(CpuEngine, f64), LabError> {
        self.engine_with(optimiser, None, false)
    }

    /// [`Lab::engine`] with a frozen reference, or with a critic, which is AdamW's whatever the policy's optimiser.
    pub(crate) fn engine_with(
        &self,
        optimiser: Optimiser,
        reference: Option<Parameters<f32>>,
        critic: bool,
    ) -> Result<(CpuEngine, f64), LabError> {
        let own = self.session.config.rl_optimiser();
        let (adam, factor) = optimiser.settings(&own);
        let model = Decoder::new(self.start.config().clone(), self.start.parameters().clone())?;
        let setup = TrainingSetup { reference, critic: critic.then_some(own), ..TrainingSetup::new(adam) };
        Ok((CpuEngine::new(model, setup)?, factor))
    }

    /// Samples and grades a group for every prompt; `step` addresses the random numbers.
    pub(crate) fn sample(
        &self,
        engine: &mut CpuEngine,
        prompts: Vec<TrainingPrompt>,
        group: usize,
        step: u64,
    ) -> Result<Rollout, LabError> {
        Ok(self.session.context().sample(engine, prompts, group, step)?)
    }

    /// The settings of a step whose groups are sampled in these sets.
    pub(super) fn settings(&self, sets: Option<Sets>) -> StepSettings {
        StepSettings { sets, ..self.session.settings.clone() }
    }

    /// Trains from the start with a method at the schedule of the configuration times `rate` over its peak; the
    /// engine it ends with, and a record of every step. Prompts and random numbers are the same for every method.
    pub(super) fn train(
        &self,
        settings: &StepSettings,
        method: &dyn Method,
        optimiser: Optimiser,
        rate: f64,
    ) -> Result<(CpuEngine, Vec<StepRecord>), LabError> {
        let reference = settings.reference.then(|| self.start.parameters().clone());
        let (mut engine, factor) = self.engine_with(optimiser, reference, settings.critic.is_some())?;
        let rl = &self.session.config.rl;
        let context = StepContext { settings, method, ..self.session.context() };
        let mut records = Vec::new();
        for step in 0..rl.steps {
            let first = step * rl.prompts_per_step as u64;
            let prompts = self.session.prompts(first..first + rl.prompts_per_step as u64)?;
            let rollout = context.sample(&mut engine, prompts, rl.group_size, step)?;
            let lr = factor * rate * rl.learning_rates().rate(step) / rl.lr;
            let report = context.step(&mut engine, &rollout, lr)?;
            let Some(StepOutcome::Applied { grad_norm, .. }) = report.update() else {
                return Err(LabError::NotFinite { step });
            };
            records.push(StepRecord { grad_norm: *grad_norm, ..record(&rollout) });
        }
        Ok((engine, records))
    }
}

/// Mean length and rewards of a rollout; 0 as its gradient's norm.
fn record(rollout: &Rollout) -> StepRecord {
    let responses = || rollout.groups.iter().flat_map(|g| &g.responses);
    let n = responses().count() as f64;
    let known: Vec<f64> = responses().filter_map(|r| r.reward).collect();
    let tokens = responses().map(|r| r.len() as f64).sum::<f64>();
    StepRecord {
        length: tokens / n,
        grad_norm: 0.0,
        reward: known.iter().sum::<f64>() / known.len().max(1) as f64,
        token_reward: responses().map(|r| r.reward.unwrap_or(0.0) * r.len() as f64).sum::<f64>() / tokens,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda_decoder::optim::AdamW;

    #[test]
    fn sgd_is_the_rate_times_the_gradient() {
        let (settings, factor) =
            Optimiser::Sgd.settings(&AdamWSettings { weight_decay: 0.1, ..AdamWSettings::default() });
        let mut sgd = AdamW::new(settings, [("w".to_owned(), vec![0.5f32, -0.25, 0.0])]);
        let gradient = [0.3f32, -0.07, 1e-4];
        for _ in 0..3 {
            sgd.step(factor * 0.5, &[("w", &gradient)]).expect("fits");
        }
        let want = [0.5 - 1.5 * 0.3, -0.25 + 1.5 * 0.07, -1.5e-4];
        for (w, want) in sgd.weights("w").expect("there").iter().zip(want) {
            assert!((f64::from(*w) - want).abs() < 1e-6 * (1.0 + want.abs()), "{w} {want}");
        }
    }
}
