//! [`Lab`]: the session and the start that all runs of a seed on addition share.

use std::path::{Path, PathBuf};

use grpo_lambda_decoder::generate::{RolloutError, SamplingParams};
use grpo_lambda_decoder::model::{self, Decoder};
use grpo_lambda_gpu::select::ComputeDevice;

use grpo_lambda_trainer::config::given::problem;
use grpo_lambda_trainer::config::{Config, ConfigError};
use grpo_lambda_trainer::eval::{EVAL_BATCH, EvalError, Evaluation, evaluate};
use grpo_lambda_trainer::input::task::Split;
use grpo_lambda_trainer::input::tokens::TokenError;
use grpo_lambda_trainer::problems::TaskError;
use grpo_lambda_trainer::step::PolicyError;
use grpo_lambda_trainer::step::engine::{CpuEngine, TrainingSetup};
use grpo_lambda_trainer::train::{Local, Session, TrainError};

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
    #[error(
        "{file}: chooses no rate for {method}, since its selection runs are not all there; run those first"
    )]
    NoRate { file: String, method: String },
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

/// The result of a part of a study.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

impl From<TrainError> for LabError {
    fn from(e: TrainError) -> Self {
        LabError::Train(Box::new(e))
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

impl Lab {
    /// The laboratory of a seed, with overrides of its settings, trained by imitation.
    pub(crate) fn of_seed(seed: u64, overrides: &[String]) -> Result<Lab> {
        let config = Lab::config(seed, [overrides, &[]])?;
        let (session, parameters) = Session::open_on(ComputeDevice::Cpu, &Local, &config, true)?;
        let model = Decoder::new(session.shape.clone(), parameters)?;
        let mut engine = CpuEngine::new(model, TrainingSetup::new(config.sft_optimiser()))?;
        for step in 0..config.sft.steps {
            session.imitate(&mut engine, step)?;
        }
        Ok(Lab { session, start: engine.model })
    }

    /// The configuration of a seed with the settings of a protocol, and overrides of them.
    pub(crate) fn config(seed: u64, settings: [&[String]; 2]) -> Result<Config, ConfigError> {
        let own = ADDITION.split(' ').map(str::to_owned).chain([format!("seed={seed}")]);
        let common = Config::resolve("tiny", &own.collect::<Vec<String>>())?;
        settings.into_iter().try_fold(common, |config, more| config.with(more))
    }

    /// An engine at the start weights, with a critic where there is one.
    pub(crate) fn engine(&self, critic: bool) -> Result<CpuEngine> {
        let own = self.session.config.rl_optimiser();
        let model = Decoder::new(self.start.config().clone(), self.start.parameters().clone())?;
        let critic = critic.then(|| own.clone());
        Ok(CpuEngine::new(model, TrainingSetup { critic, ..TrainingSetup::new(own) })?)
    }

    /// The share of all problems, at most a hundred, that the weights of an engine solve greedily.
    pub(crate) fn accuracy(&self, engine: &CpuEngine) -> Result<f64> {
        let Session { config, problems, rewards, .. } = &self.session;
        let stops = &rewards.stops;
        let problems = problems.distinct(Split::Test, 100)?;
        let max_new_tokens = config.rl.max_new_tokens;
        let greedy = SamplingParams::new(max_new_tokens, 0.0);
        let found = evaluate(engine, stops, (&problems, config.seed), (greedy, EVAL_BATCH), &|_, _| ());
        let found = found.map_err(|e| match e {
            EvalError::Rollout(e) => LabError::Rollout(e),
            EvalError::Token(e) => LabError::Token(e),
        })?;
        Ok(Evaluation::counted(&found).correct as f64 / problems.len() as f64)
    }
}
