//! A row: an expected update against the policy gradient.

use grpo_lambda_stats::mean;
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

/// Rows by mode, method and x, ratios taken from the sampler.
pub(super) fn select<'a>(
    rows: &'a [Row],
    mode: Mode,
    method: &'a str,
    x: f64,
) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |r| r.mode == mode && r.method == method && r.x == x && !r.ignored)
}

/// Names of the methods in the order of the rows.
pub(super) fn methods(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.method.as_str()) {
            names.push(&row.method);
        }
    }
    names
}

/// Mean cosine over the tasks; a silent update counts 0.
pub(super) fn mean_cosine(rows: &[Row], mode: Mode, method: &str, x: f64) -> f64 {
    let cosines: Vec<f64> = select(rows, mode, method, x).map(Row::cosine).collect();
    mean(&cosines).unwrap_or(f64::NAN)
}

/// Mean of a share over the tasks.
pub(super) fn mean_share(
    rows: &[Row],
    mode: Mode,
    method: &str,
    x: f64,
    of: impl Fn(&Regions) -> f64,
) -> f64 {
    let shares: Vec<f64> =
        select(rows, mode, method, x).filter_map(|r| r.regions.as_ref().map(&of)).collect();
    mean(&shares).unwrap_or(f64::NAN)
}
