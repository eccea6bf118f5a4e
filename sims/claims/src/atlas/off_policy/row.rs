//! A row: an expected update against the policy gradient.

use serde::{Deserialize, Serialize};

use super::pairs::Fit;
use super::regions::Regions;

/// The difference of sampler and updated policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Mode {
    /// The policy has been updated on the batch: by this method, `x` times.
    Inner,
    /// The sampler is the policy `x` exact gradient steps ago, the same pair for all methods.
    Stale,
    /// The sampler has temperature `x`.
    Temperature,
    /// The sampler's logits carry noise of standard deviation `x`.
    Noise,
}

impl Mode {
    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Inner => "inner",
            Mode::Stale => "stale",
            Mode::Temperature => "temperature",
            Mode::Noise => "noise",
        }
    }
}

/// One expected update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) mode: Mode,
    pub(super) mdp: String,
    /// The method, by its name for a reader.
    pub(super) method: String,
    /// Updates, temperature or noise.
    pub(super) x: f64,
    /// True if ratios are taken to be 1.
    pub(super) ignored: bool,
    /// `KL(sampler || updated)`, nats per response.
    pub(super) kl: f64,
    /// Against `∇J`; none where the update is silent.
    pub(super) fit: Option<Fit>,
    /// Shares of tokens; only for updates and stale samplers.
    pub(super) regions: Option<Regions>,
}

impl Row {
    /// Cosine with `∇J`; 0 of a silent update.
    pub(super) fn cosine(&self) -> f64 {
        self.fit.map_or(0.0, |f| f.cosine)
    }
}
