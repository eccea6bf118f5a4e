//! The quantities that are looked at; `checks.toml` says what each framework calls them.

use serde::Deserialize;

use super::{PerFramework, WORDS};

/// The writer of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framework {
    Ours,
    /// `GRPOTrainer`, by the names of its releases since 0.19.
    Trl,
    /// `RayPPOTrainer`, by the names of its releases since 0.3.
    Verl,
}

impl Framework {
    pub fn name(self) -> &'static str {
        match self {
            Framework::Ours => "llm-train",
            Framework::Trl => "TRL",
            Framework::Verl => "verl",
        }
    }
}

/// A quantity of a step, in the order of `checks.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Column {
    /// Mean reward of the responses.
    Reward,
    /// Share of groups whose rewards are all equal.
    ZeroVariance,
    /// Mean KL estimate against the reference, in nats per token.
    Kl,
    /// Mean probability ratio to the sampling policy.
    RatioMean,
    /// exp of the largest absolute log-ratio.
    RatioMax,
    /// Mean of exp of the absolute difference between the log-probabilities of sampler and trainer.
    Mismatch,
    /// Share of responses that were cut off.
    Truncated,
    /// Share of tokens on the lower clip bound.
    ClipLow,
    /// Share of tokens on the upper clip bound.
    ClipHigh,
    /// Share of tokens on either clip bound; in verl also those on its dual clip, a cap on large ratios where the
    /// advantage is negative.
    Clipped,
    /// Norm of the gradient before clipping.
    GradNorm,
    /// 1 where the update was left out.
    Skipped,
    /// Mean length of a response in tokens.
    Length,
    /// Mean entropy in nats per token.
    Entropy,
    Loss,
    /// Share of right responses among those that could be graded.
    Accuracy,
    /// Upper end of the 95 % interval of the held-out accuracy.
    HeldOutHigh,
}

/// The names of a quantity: in words, and in each framework.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ColumnNames {
    column: Column,
    name: String,
    /// The preferred one first.
    names: PerFramework<Vec<String>>,
}

impl Column {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Column> {
        WORDS.columns.iter().map(|names| names.column)
    }

    /// In words.
    pub fn name(self) -> &'static str {
        &WORDS.columns[self as usize].name
    }

    /// Its names in a framework, the preferred one first.
    pub fn names(self, framework: Framework) -> &'static [String] {
        WORDS.columns[self as usize].names.for_framework(framework)
    }
}
