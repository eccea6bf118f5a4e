//! The errors that end a run.

use std::path::PathBuf;

use grpo_lambda::group::InputKind;
use grpo_lambda::methods::MissingInput;
use grpo_lambda_decoder::generate::RolloutError;
use grpo_lambda_decoder::model;
use grpo_lambda_decoder::optim::OptimError;
use grpo_lambda_gpu::select::{NoCard, SelectError};

use crate::config::ConfigError;
use crate::eval::EvalError;
use crate::eval::store::StoreError;
use crate::input::tokens::TokenError;
use crate::problems::TaskError;
use crate::run::{RunError, stop};
use crate::step::extra_inputs::{InputSettingError, PROVIDED, why_unavailable};
use crate::step::sft::SftError;
use crate::step::{PolicyError, RewardError};

/// The reason why a run stopped.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Open(RunError),
    #[error(transparent)]
    Run(#[from] RunError),
    /// The run's record of its held-out answers.
    #[error(transparent)]
    Answers(#[from] StoreError),
    #[error(transparent)]
    Model(#[from] model::Error),
    #[error("no checkpoint was written: {0}; those before it are kept")]
    Save(model::Error),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Task(TaskError),
    #[error("a problem cannot be read: {0}")]
    Problem(TaskError),
    #[error("supervised step {step}: {source}")]
    Sft { step: u64, source: SftError },
    #[error("RL step {step}: {source}")]
    Rl { step: u64, source: PolicyError },
    #[error("evaluation: {0}")]
    Eval(#[from] EvalError),
    /// A signal asked for the end.
    #[error(
        "stopped by {} after step {step}; saved to {checkpoint}; rerun the same command to resume", stop::name(*signal)
    )]
    Stopped { signal: u8, step: u64, checkpoint: PathBuf },
    /// The weights are not finite.
    #[error(
        "{when}: {scores}: training has diverged; lower the learning rate ({key} = {rate:?}), or start from an earlier checkpoint"
    )]
    Diverged { when: String, key: &'static str, rate: f64, scores: String },
    #[error(transparent)]
    Optim(#[from] OptimError),
    /// Extra inputs the method needs and this policy does not have.
    #[error(
        "method.name={method}: needs {needs} under these settings, provided by {provided_by}; {}; the language model provides {}; choose another \
         method (docs/conventions.md)",
        lacks(.0.needs), names_without(.0.needs), method = .0.method, needs = .0.needs, provided_by = .0.provided_by
    )]
    ExtraInputs(#[from] MissingInput),
    #[error("{}", no_device(.0))]
    Device(#[from] SelectError),
    /// Settings of the method's extra inputs that this model cannot take.
    #[error(transparent)]
    InputSetting(#[from] InputSettingError),
    #[error(
        "{count} steps in a row had a gradient with NaN or infinity (first in `{parameter}`) and were skipped; \
         the run stops at step {step}: lower the learning rate, or start from an earlier checkpoint"
    )]
    NotFinite { step: u64, count: u64, parameter: String },
}

/// The result of a part of a run.
pub type Result<T, E = TrainError> = std::result::Result<T, E>;

impl TrainError {
    /// True if something outside failed in an evaluation, or before the step moved the weights: the program of `reward.command`, or the server.
    pub(super) fn leaves_the_weights(&self) -> bool {
        match self {
            TrainError::Rl { source, .. } => matches!(
                source,
                PolicyError::Reward(RewardError::Program(_) | RewardError::TooLarge { .. })
                    | PolicyError::Rollout(RolloutError::External(_))
            ),
            TrainError::Eval(e) => matches!(e, EvalError::Rollout(RolloutError::External(_))),
            _ => false,
        }
    }

    /// The signal that asked for the end; `None` for an error.
    pub fn signal(&self) -> Option<u8> {
        match self {
            TrainError::Stopped { signal, .. } => Some(*signal),
            _ => None,
        }
    }

    /// True if the input was refused, rather than the work broken off.
    pub fn refused(&self) -> bool {
        let too_long = |e: &RolloutError| matches!(e, RolloutError::TooLong { .. });
        match self {
            // Damage is the input's, whenever it is met.
            TrainError::Run(RunError::Damaged { .. })
            | TrainError::Config(_)
            | TrainError::Open(_)
            | TrainError::Answers(_)
            | TrainError::Model(_)
            | TrainError::Token(_)
            | TrainError::Task(_)
            | TrainError::Optim(_)
            | TrainError::ExtraInputs(_)
            | TrainError::Device(_)
            | TrainError::InputSetting(_) => true,
            TrainError::Rl { source: PolicyError::Rollout(e), .. }
            | TrainError::Eval(EvalError::Rollout(e)) => too_long(e),
            TrainError::Sft { source: SftError::Model(e), .. } => matches!(e, model::Error::Input { .. }),
            TrainError::Run(_)
            | TrainError::Problem(_)
            | TrainError::Save(_)
            | TrainError::Sft { .. }
            | TrainError::Rl { .. }
            | TrainError::Eval(_)
            | TrainError::Diverged { .. }
            | TrainError::Stopped { .. }
            | TrainError::NotFinite { .. } => false,
        }
    }
}

/// The settings for which there is no device, and what to set.
fn no_device(error: &SelectError) -> String {
    let not_built = "this llm-train was built without CUDA";
    let because = match error {
        SelectError::NoCard(NoCard::NotBuilt) => {
            return format!("device = cuda: {not_built}: build it with --features cuda, or set device = cpu");
        }
        SelectError::NoCard(NoCard::Unusable(error)) => return format!("device = cuda: {error}"),
        SelectError::OnlyCandle => {
            return format!("device = metal: {error}; set engine=candle, or device=cpu");
        }
        SelectError::NotOnTheCpu(None) => "device = cpu".to_owned(),
        SelectError::NotOnTheCpu(Some(NoCard::NotBuilt)) => not_built.to_owned(),
        SelectError::NotOnTheCpu(Some(NoCard::Unusable(error))) => error.to_string(),
    };
    format!(
        "dtype = bf16: the run would be on the CPU ({because}), where everything is f32; leave dtype out, or set it to f32"
    )
}

/// The reason why the extra input of this name is not provided.
fn lacks(name: &str) -> &'static str {
    InputKind::ALL.into_iter().find(|kind| kind.name() == name).map_or("", why_unavailable)
}

/// The extra inputs that are provided, but for the kind of this name.
fn names_without(lacking: &str) -> String {
    let names = PROVIDED.iter().map(|kind| kind.name()).filter(|name| *name != lacking);
    names.collect::<Vec<_>>().join(", ")
}
