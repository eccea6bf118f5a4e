#![doc = include_str!("../README.md")]

mod diagnose;
mod nemo_rl;
mod openrlhf;
mod others;
mod page;
mod papers;
mod trl;
mod verl;
mod verl_losses;

pub use diagnose::{
    Assumptions, CORRECTION_SETTINGS, Candidate, Diagnosis, Found, Remainder, Rows, Theirs, diagnose,
    largest_difference,
};
pub use page::markdown;

use grpo_lambda::methods::{self, Configured};
use grpo_lambda::settings::SettingError;

/// A framework or a body of papers, with the version that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Framework {
    /// Its name.
    pub name: &'static str,
    /// The version, or the commit, whose source was read.
    pub version: &'static str,
}

/// The part of an objective that an entry is about. The rest stands at the values of its settings string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Advantages and loss.
    Objective,
    /// Advantages alone.
    Advantages,
    /// The loss of a token alone.
    Loss,
    /// The reduction alone.
    Reduction,
    /// The KL term alone.
    Kl,
    /// The correction of the sampler's mismatch alone.
    Correction,
}

impl Scope {
    /// The word used in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Objective => "objective",
            Scope::Advantages => "advantages",
            Scope::Loss => "loss",
            Scope::Reduction => "reduction",
            Scope::Kl => "KL",
            Scope::Correction => "correction",
        }
    }
}

/// A framework's meaning of some words, with their settings here. A text that says nothing is `-`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Convention {
    /// The framework whose convention it is.
    pub framework: Framework,
    /// The words, as its users write them.
    pub words: &'static str,
    /// The part of the objective it covers.
    pub scope: Scope,
    /// The baseline of a reward and the divisor of the difference.
    pub advantage: &'static str,
    /// Delta degrees of freedom of the standard deviation; none where there is none.
    pub ddof: Option<u8>,
    /// The number added to the standard deviation; `None` without one.
    pub epsilon: Option<f64>,
    /// The reduction of token losses to one number, with its divisor.
    pub reduction: &'static str,
    /// The clip, or what stands in its place.
    pub clip: &'static str,
    /// The KL term.
    pub kl: &'static str,
    /// The method here that reproduces it; empty where none does.
    pub method: &'static str,
    /// The settings of that method over its defaults.
    pub settings: &'static str,
    /// Departure of the method here, or the reason that none reproduces it.
    pub differs: &'static str,
    /// The recording that a test compares with; `-` for none.
    pub recorded: &'static str,
    /// The place in the source.
    pub place: &'static str,
}

/// An entry that says nothing yet.
const EMPTY: Convention = Convention {
    framework: Framework { name: "", version: "" },
    words: "",
    scope: Scope::Objective,
    advantage: "-",
    ddof: None,
    epsilon: None,
    reduction: "-",
    clip: "-",
    kl: "-",
    method: "",
    settings: "",
    differs: "-",
    recorded: "-",
    place: "",
};

impl Convention {
    /// The method under the entry's settings; none where nothing here reproduces the entry.
    ///
    /// # Errors
    /// If the settings are refused, which a test excludes.
    pub fn configure(&self) -> Result<Option<Configured>, SettingError> {
        if self.method.is_empty() {
            return Ok(None);
        }
        methods::parse(self.method, self.settings).map(Some)
    }

    /// Framework and words, as a message names the entry.
    pub fn label(&self) -> String {
        format!("{} {}", self.framework.name, self.words)
    }

    /// Method and settings, as a command takes them.
    pub fn command(&self) -> String {
        format!("{} {}", self.method, self.settings).trim_end().to_owned()
    }
}

/// Every entry, framework by framework.
pub fn all() -> impl Iterator<Item = &'static Convention> {
    let rows =
        [papers::ROWS, trl::ROWS, verl::ROWS, verl_losses::ROWS, openrlhf::ROWS, nemo_rl::ROWS, others::ROWS];
    rows.into_iter().flatten()
}

/// The entries that a method reproduces.
pub fn of_method(name: &str) -> impl Iterator<Item = &'static Convention> {
    all().filter(move |c| c.method == name)
}
