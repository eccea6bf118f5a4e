//! A method's entry in the registry, and a method with its settings chosen.

use super::Method;
use crate::check::{self, BatchError};
use crate::group::{Group, InputKind};
use crate::settings::{Param, Settings};
use crate::systematic::Sets;

/// The origin of a method's formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Published formulas and public reference code.
    Published,
    /// A paper's formulas; no public code is known.
    PaperOnly,
    /// Rebuilt by us because no source gives the formulas.
    Reconstructed,
    /// Our own proposal or ablation; no source has it.
    Ours,
}

impl Provenance {
    /// The word used in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Provenance::Published => "published",
            Provenance::PaperOnly => "paper only",
            Provenance::Reconstructed => "reconstructed",
            Provenance::Ours => "ours",
        }
    }
}

/// A method's entry in the registry.
pub struct MethodSpec {
    /// Its name in commands and configurations.
    pub name: &'static str,
    /// Its name in tables, figures and text.
    pub title: &'static str,
    /// A description in one sentence.
    pub about: &'static str,
    /// Paper and code the formulas come from.
    pub source: &'static str,
    /// The share of the formulas that the source gives.
    pub provenance: Provenance,
    /// Settings (`"lambda=0.5 style=both"`, `""` the defaults) that reach every branch of its credit and loss. Tests compare their exact
    /// expected updates with the enumeration of all groups, and their equations with the recorded ones.
    pub samples: &'static [&'static str],
    /// Its settings with their defaults.
    pub params: fn() -> Vec<Param>,
    /// The extra inputs it needs under these settings.
    pub extra_inputs: fn(&Settings) -> Vec<InputKind>,
    /// Builds the method from settings that have been checked.
    pub build: fn(&Settings) -> Box<dyn Method>,
}

/// A method needs what the policy does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{method} needs {needs}, which comes from {provided_by}; this policy has none")]
pub struct MissingInput {
    /// Name of the method.
    pub method: &'static str,
    /// Name of the extra input that it needs.
    pub needs: &'static str,
    /// The kind of policy that provides it.
    pub provided_by: &'static str,
}

/// A method with its resolved settings.
pub struct Configured {
    /// The entry of the registry it was built from.
    pub spec: &'static MethodSpec,
    /// Every setting with its value.
    pub settings: Settings,
    /// The method under these settings.
    pub method: Box<dyn Method>,
}

impl Configured {
    /// The extra inputs it needs.
    pub fn extra_inputs(&self) -> Vec<InputKind> {
        (self.spec.extra_inputs)(&self.settings)
    }

    /// Refuses the method where a policy that provides `provided` lacks extra inputs it needs.
    ///
    /// # Errors
    /// [`MissingInput`], which names the extra input and what provides it.
    ///
    /// ```
    /// let masked = grpo_lambda::methods::parse("high_entropy", "").unwrap();
    /// let refused = masked.require(&[]).unwrap_err().to_string();
    /// assert!(refused.contains("needs entropies"), "{refused}");
    /// ```
    pub fn require(&self, provided: &[InputKind]) -> Result<(), MissingInput> {
        match self.extra_inputs().into_iter().find(|kind| !provided.contains(kind)) {
            None => Ok(()),
            Some(kind) => Err(MissingInput {
                method: self.spec.name,
                needs: kind.name(),
                provided_by: kind.provided_by(),
            }),
        }
    }

    /// Checks one group and the current log-probabilities of its responses against what the method reads.
    ///
    /// # Errors
    /// The first [`BatchError`] found; one response is an error for a method that compares responses.
    pub fn check(&self, group: &Group, logps: &[Vec<f64>]) -> Result<(), BatchError> {
        let checked = if self.method.needs_others() { check::group } else { check::graded };
        checked(group, logps, &self.extra_inputs())
    }

    /// The sets of a group that the method compares, by the order of its responses; none where that order means nothing to it.
    ///
    /// ```
    /// use grpo_lambda::methods::parse;
    /// assert_eq!(parse("rloo", "").unwrap().sets(), None);
    /// assert_eq!(parse("systematic_rloo", "sets=4").unwrap().sets().map(|sets| sets.count(8)), Some(4));
    /// ```
    pub fn sets(&self) -> Option<Sets> {
        let is_set = self.settings.entries().any(|(key, _)| key == "sets");
        is_set.then(|| Sets::new(self.settings.number("sets").round() as usize))
    }

    /// The settings that were changed and have no effect given the others; see [`Settings::idle`].
    pub fn idle(&self) -> Vec<String> {
        self.settings.idle(&(self.spec.params)())
    }
}
