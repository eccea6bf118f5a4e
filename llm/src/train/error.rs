//! Why a run stopped.

use std::path::PathBuf;

use grpo_lambda::group::EvidenceKind;
use grpo_lambda::methods::MissingEvidence;
use grpo_lambda_decoder::generate::RolloutError;
use grpo_lambda_decoder::model;
use grpo_lambda_decoder::optim::OptimError;
use grpo_lambda_gpu::select::SelectError;

use crate::config::ConfigError;
use crate::eval::EvalError;
use crate::input::tokens::TokenError;
use crate::problems::TaskError;
use crate::run::{RunError, stop};
use crate::step::evidence::{EvidenceSettingError, PROVIDED, why_unavailable};
use crate::step::sft::SftError;
use crate::step::{PolicyError, RewardError};

/// Why a run stopped.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Open(RunError),
    #[error(transparent)]
    Run(#[from] RunError),
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
        "stopped by {} after step {step}; everything is in {checkpoint}, and the same command goes on from there", stop::name(*signal)
    )]
    Stopped { signal: u8, step: u64, checkpoint: PathBuf },
    /// The weights are no numbers any more.
    #[error(
        "{when}: {scores}: training has diverged; lower the learning rate ({key} = {rate:?}), or start from an earlier checkpoint"
    )]
    Diverged { when: String, key: &'static str, rate: f64, scores: String },
    #[error(transparent)]
    Optim(#[from] OptimError),
    /// A complete checkpoint that does not belong to this run.
    #[error("{path}: {problem}")]
    State { path: PathBuf, problem: String },
    /// Evidence the method needs and this policy does not have.
    #[error(
        "method.name={method}: needs {needs} under these settings, which comes from {provided_by}; {}; the language model provides {}",
        lacks(.0.needs), names(PROVIDED), method = .0.method, needs = .0.needs, provided_by = .0.provided_by
    )]
    Evidence(#[from] MissingEvidence),
    #[error(transparent)]
    Device(#[from] SelectError),
    #[error(
        "method.name={method}: {evidence} is asked of the CPU's decoder only: set device=cpu (found {card})"
    )]
    OnTheCpuOnly { method: String, evidence: &'static str, card: String },
    /// Settings of the method's evidence that this model cannot take.
    #[error(transparent)]
    EvidenceSetting(#[from] EvidenceSettingError),
    #[error(
        "{count} steps in a row had a gradient with NaN or infinity (first in `{parameter}`) and were skipped; \
         the run stops at step {step}: lower the learning rate, or start from an earlier checkpoint"
    )]
    NotFinite { step: u64, count: u64, parameter: String },
}

impl TrainError {
    /// Whether something outside failed, in a step that had not moved the weights yet: the program of `reward.command`, or the rollout engine.
    pub(super) fn leaves_the_weights(&self) -> bool {
        let TrainError::Rl { source, .. } = self else { return false };
        matches!(
            source,
            PolicyError::Reward(RewardError::Program(_)) | PolicyError::Rollout(RolloutError::External(_))
        )
    }

    /// The signal that asked for the end, if one did.
    pub fn signal(&self) -> Option<u8> {
        match self {
            TrainError::Stopped { signal, .. } => Some(*signal),
            _ => None,
        }
    }

    /// Whether the input was refused, rather than the work broken off.
    pub fn refused(&self) -> bool {
        let too_long = |e: &RolloutError| matches!(e, RolloutError::TooLong { .. });
        match self {
            // Damage is the input's, whenever it is met.
            TrainError::Run(RunError::Damaged { .. })
            | TrainError::Config(_)
            | TrainError::Open(_)
            | TrainError::Model(_)
            | TrainError::Token(_)
            | TrainError::Task(_)
            | TrainError::Optim(_)
            | TrainError::State { .. }
            | TrainError::Evidence(_)
            | TrainError::Device(_)
            | TrainError::OnTheCpuOnly { .. }
            | TrainError::EvidenceSetting(_) => true,
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

/// Why the evidence of this name is not provided.
fn lacks(name: &str) -> &'static str {
    EvidenceKind::ALL.into_iter().find(|kind| kind.name() == name).map_or("", why_unavailable)
}

fn names(kinds: &[EvidenceKind]) -> String {
    kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}
