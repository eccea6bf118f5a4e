//! The weight of a prompt: its expected update is a multiple `w_G(p)` of `∇p`.

use grpo_lambda_mdp::expected::{Situation, compare, implied};
use grpo_lambda_mdp::{Oracle, Rules, Tabular, Tree};

use serde::{Serialize, Serializer};

use crate::experiments::common::methods::method;

/// Without the clamp, and with the paper's.
pub(super) const CLAMPS: [Option<f64>; 2] = [None, Some(-0.1)];
pub(super) const GROUP: usize = 8;
/// A group large enough for the limit.
pub(super) const LARGE: usize = 128;
pub(super) const PROBABILITIES: [f64; 19] =
    [0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99];

/// One prompt, answered by one token that is right with probability `p`.
#[derive(Clone, Serialize)]
pub(super) struct PromptWeight {
    pub(super) p: f64,
    pub(super) group: usize,
    #[serde(serialize_with = "as_setting")]
    pub(super) clamp: Option<f64>,
    /// The multiple of `∇p` by the oracle.
    #[serde(rename = "weight_by_oracle")]
    pub(super) by_oracle: f64,
    /// The multiple by the binomial formula.
    #[serde(rename = "weight_by_formula")]
    pub(super) by_formula: f64,
    /// The limit of the formula for large groups.
    #[serde(rename = "large_group_limit")]
    pub(super) limit: f64,
    pub(super) signal_to_noise: f64,
    /// The cosine of the expected update with `∇p`.
    #[serde(skip)]
    pub(super) cosine: f64,
}

impl PromptWeight {
    pub(super) fn formula_error(&self) -> f64 {
        (self.by_oracle - self.by_formula).abs() / self.by_formula
    }

    pub(super) fn limit_error(&self) -> f64 {
        (self.by_oracle - self.limit).abs() / self.limit
    }
}

/// A clamp as a method's setting.
pub(super) fn setting(clamp: Option<f64>) -> String {
    clamp.map_or("none".to_owned(), |c| c.to_string())
}

pub(super) fn as_setting<S: Serializer>(clamp: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&setting(*clamp))
}

pub(super) fn prompt_weights() -> anyhow::Result<Vec<PromptWeight>> {
    let clamped = PROBABILITIES.into_iter().flat_map(|p| CLAMPS.map(|clamp| (p, clamp)));
    clamped.flat_map(|(p, clamp)| [GROUP, 32, LARGE].map(|group| weight(p, group, clamp))).collect()
}

fn weight(p: f64, group: usize, clamp: Option<f64>) -> anyhow::Result<PromptWeight> {
    let (tree, policy) = coin(p)?;
    let method = method("grpo", &format!("reduction=response_sum clamp={}", setting(clamp)))?;
    let expected = implied(method.as_ref(), &Situation::on_policy(&tree, &policy, group))?;
    let found = compare(&expected, &Oracle::new(&tree, &policy));
    Ok(PromptWeight {
        p,
        group,
        clamp,
        by_oracle: found.scale,
        by_formula: formula(p, group, clamp),
        limit: large_group(p, clamp),
        signal_to_noise: found.signal_to_noise,
        cosine: found.cosine,
    })
}

/// One token, right with probability `p`.
fn coin(p: f64) -> anyhow::Result<(Tree, Tabular)> {
    let tree = Rules::new(["right", "wrong", "EOS"], 1)
        .build(|_| vec![0, 1], |response, _| f64::from(response == [0]))?;
    let policy = Tabular::from_weights(&tree, |_, edge| if edge == 0 { p } else { 1.0 - p });
    Ok((tree, policy))
}

/// `w_G(p) = Σ_k Bin(k; G-1, p) [A(k+1 right, own right) - A(k right, own wrong)]`, with z-scores written out.
fn formula(p: f64, group: usize, clamp: Option<f64>) -> f64 {
    let n = group as f64;
    let advantage = |right: usize, own: f64| {
        if right == 0 || right == group {
            return 0.0;
        }
        let k = right as f64;
        let std = (k * (n - k) / (n * (n - 1.0))).sqrt() + 1e-4;
        ((own - k / n) / std).max(clamp.unwrap_or(f64::NEG_INFINITY))
    };
    // In logarithms: (1-p)^(G-1) alone underflows in large groups.
    let mut log_binomial = (n - 1.0) * (1.0 - p).ln();
    let mut sum = 0.0;
    for k in 0..group {
        sum += log_binomial.exp() * (advantage(k + 1, 1.0) - advantage(k, 0.0));
        log_binomial += ((n - 1.0 - k as f64) / (k as f64 + 1.0) * p / (1.0 - p)).ln();
    }
    sum
}

/// The limit of [`formula`] for large groups.
fn large_group(p: f64, clamp: Option<f64>) -> f64 {
    let wrong = (p / (1.0 - p)).sqrt();
    ((1.0 - p) / p).sqrt() + clamp.map_or(wrong, |c| wrong.min(-c))
}
