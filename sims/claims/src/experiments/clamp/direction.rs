//! In which direction the clamped expected update points, against the unclamped one and against the policy gradient.

use grpo_lambda_mdp::expected::{Expected, ExpectedError, Situation, compare, cosine, implied};
use grpo_lambda_mdp::zoo::{self, Family, Random, RandomRewards};
use grpo_lambda_mdp::{Oracle, RewardKind, Tabular, Tree};

use super::prompt::{CLAMPS, GROUP, setting};
use crate::experiments::common::methods::method;

/// Token weights: name, method, settings.
pub(super) const WEIGHTS: [(&str, &str, &str); 4] = [
    ("uniform", "grpo", ""),
    ("recent", "grpo_lambda", "lambda=0.99"),
    ("both", "grpo_lambda", "lambda=0.99 style=both"),
    ("ϵ-weight", "grpo_lambda", "lambda=0.99 update=weight"),
];

/// What the clamp does to the expected update of one MDP under some token weights.
pub(super) struct ClampEffect {
    pub(super) mdp: String,
    pub(super) weights: &'static str,
    /// Whether rewards are 0 or 1.
    pub(super) binary: bool,
    /// Of the clamped and the unclamped expected update.
    pub(super) cosine: f64,
    /// Of either with `∇J`.
    pub(super) unclamped_with_gradient: f64,
    pub(super) clamped_with_gradient: f64,
}

impl ClampEffect {
    pub(super) fn uniform(&self) -> bool {
        self.weights == WEIGHTS[0].0
    }
}

pub(super) fn directions() -> anyhow::Result<Vec<ClampEffect>> {
    let mut all = Vec::new();
    for (mdp, tree, policy) in mdps()? {
        let oracle = Oracle::new(&tree, &policy);
        for (weights, name, settings) in WEIGHTS {
            let [free, clamped] = CLAMPS.map(|clamp| expected(name, settings, clamp, &tree, &policy));
            let (Some(free), Some(clamped)) = (free?, clamped?) else { continue };
            all.push(ClampEffect {
                mdp: mdp.clone(),
                weights,
                binary: tree.reward_kind() == RewardKind::Binary,
                cosine: cosine(&free.update, &clamped.update),
                unclamped_with_gradient: compare(&free, &oracle).cosine,
                clamped_with_gradient: compare(&clamped, &oracle).cosine,
            });
        }
    }
    Ok(all)
}

/// The MDPs of the zoo that are small enough, and one with real rewards, undiscounted.
fn mdps() -> anyhow::Result<Vec<(String, Tree, Tabular)>> {
    let mut mdps = Vec::new();
    for entry in zoo::all() {
        let tree = (entry.build)();
        if tree.leaf_count() <= 600 {
            let policy = (entry.initial)(&tree);
            mdps.push((entry.name.to_owned(), tree.with_gamma(1.0), policy));
        }
    }
    let real = Random { seed: 1, symbols: 2, horizon: 2, rewards: RandomRewards::Real, ..Random::default() };
    let tree = real.tree()?;
    let policy = real.initial(&tree);
    mdps.push(("random, real rewards".to_owned(), tree.with_gamma(1.0), policy));
    Ok(mdps)
}

/// The expected update; `None` where the exact sum would take too long.
fn expected(
    name: &str,
    settings: &str,
    clamp: Option<f64>,
    tree: &Tree,
    policy: &Tabular,
) -> anyhow::Result<Option<Expected>> {
    let settings = format!("reduction=constant max_length=1 clamp={} {settings}", setting(clamp));
    let method = method(name, &settings)?;
    match implied(method.as_ref(), &Situation::on_policy(tree, policy, GROUP)) {
        Ok(expected) => Ok(Some(expected)),
        Err(ExpectedError::TooMany { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
