//! What the bound does to the expected update of a reading.

use grpo_lambda::methods::Method;
use grpo_lambda_mdp::expected::{Situation, enumerated, implied};

use super::with_bound::WithBound;
use crate::experiments::common::mdp::Mdp;
use crate::experiments::common::methods::method;
use crate::experiments::common::vectors::{cosine, difference, gap, largest, norm};

const GROUP: usize = 4;

/// A reading of the method.
pub(super) struct Reading {
    /// For a reader.
    pub(super) name: &'static str,
    method: &'static str,
    settings: String,
    /// λ of its trace.
    pub(super) lambda: Option<f64>,
    /// Whether the weight of a token does not depend on the other tokens of its response.
    pub(super) constant: bool,
}

/// The readings, those without a trace first.
pub(super) fn readings() -> Vec<Reading> {
    let without_trace = |name, method, settings: &str, constant| Reading {
        name,
        method,
        settings: settings.to_owned(),
        lambda: None,
        constant,
    };
    let with_trace = |(name, lambda)| Reading {
        name,
        method: "grpo_lambda",
        settings: format!("lambda={lambda} scale=none clamp=none reduction=response_sum"),
        lambda: Some(lambda),
        constant: false,
    };
    let mut all = vec![
        without_trace("RLOO", "rloo", "", true),
        without_trace("centred, constant", "dr_grpo", "max_length=1", true),
        without_trace("z-score, constant", "grpo", "reduction=response_sum", true),
        without_trace("z-score, token mean", "grpo", "reduction=token_mean", false),
        without_trace("z-score, 1/T", "grpo", "", false),
    ];
    all.extend([("trace 0.5", 0.5), ("trace 0.9", 0.9), ("trace 0.99", 0.99)].map(with_trace));
    all
}

impl Reading {
    fn plain(&self) -> anyhow::Result<Box<dyn Method>> {
        method(self.method, &self.settings)
    }

    fn bounded(&self, mdp: &Mdp) -> anyhow::Result<WithBound> {
        Ok(WithBound::new(self.plain()?, &mdp.oracle()))
    }
}

/// The expected update `g'` with the bound against `g` without, on one MDP.
pub(super) struct Effect {
    /// The largest component of `E[g'] - E[g]`.
    pub(super) change: f64,
    /// `|E[g'] - E[g]| / |E[g]|`.
    pub(super) relative: f64,
    /// Of the change with the policy gradient.
    pub(super) cosine: f64,
    /// `tr Cov g' / tr Cov g`.
    pub(super) variance_ratio: f64,
}

impl Effect {
    pub(super) fn new(reading: &Reading, mdp: &Mdp) -> anyhow::Result<Effect> {
        let situation = Situation::on_policy(&mdp.tree, &mdp.policy, GROUP);
        let plain = implied(reading.plain()?.as_ref(), &situation)?;
        let bounded = implied(&reading.bounded(mdp)?, &situation)?;
        let change = difference(&bounded.update, &plain.update);
        Ok(Effect {
            change: largest(change.iter().map(|x| x.abs())),
            relative: norm(&change) / norm(&plain.update),
            cosine: cosine(&change, &mdp.oracle().grad_j()),
            variance_ratio: bounded.total_variance() / plain.total_variance(),
        })
    }
}

/// The largest difference between the expected update with the bound by implied credit and by brute force over all pairs of responses.
pub(super) fn off_enumeration(reading: &Reading, mdp: &Mdp) -> anyhow::Result<f64> {
    let bounded = reading.bounded(mdp)?;
    let situation = Situation::on_policy(&mdp.tree, &mdp.policy, 2);
    let (a, b) = (implied(&bounded, &situation)?, enumerated(&bounded, &situation)?);
    Ok(gap(&a.update, &b.update).max(gap(&a.variance, &b.variance)))
}
