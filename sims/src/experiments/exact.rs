//! What the exact experiments share: MDPs by name and by seed, vectors, verdicts.

use crate::experiment::Verdict;
use grpo_lambda::mdp::zoo::{self, Family, Random};
use grpo_lambda::mdp::{Oracle, Tabular, Tree};
use grpo_lambda::methods::{self, Method};
use grpo_lambda::table::significant;

/// An MDP with the policy to examine it at.
pub(super) struct Mdp {
    pub(super) name: String,
    pub(super) tree: Tree,
    pub(super) policy: Tabular,
}

impl Mdp {
    /// The default instance of a family of the zoo, at its suggested initial policy.
    pub(super) fn named(name: &str) -> anyhow::Result<Mdp> {
        let entry = zoo::find(name).ok_or_else(|| anyhow::anyhow!("the zoo has no `{name}`"))?;
        let tree = (entry.build)();
        let policy = (entry.initial)(&tree);
        Ok(Mdp { name: name.to_owned(), tree, policy })
    }

    /// A random tree and policy.
    pub(super) fn random(family: Random) -> anyhow::Result<Mdp> {
        let tree = family.tree()?;
        let policy = family.initial(&tree);
        Ok(Mdp { name: format!("random {}", family.seed), tree, policy })
    }

    pub(super) fn oracle(&self) -> Oracle<'_> {
        Oracle::new(&self.tree, &self.policy)
    }
}

/// The first `n` random MDPs from `seed` on that hold something to learn: `|∇J| > 0.001`.
pub(super) fn random_mdps(n: usize, seed: u64, knobs: Random) -> anyhow::Result<Vec<Mdp>> {
    let mut found = Vec::with_capacity(n);
    let mut seed = seed.wrapping_mul(100_000);
    while found.len() < n {
        let mdp = Mdp::random(Random { seed, ..knobs })?;
        if norm(&mdp.oracle().grad_j()) > 1e-3 {
            found.push(mdp);
        }
        seed += 1;
    }
    Ok(found)
}

/// A registered method with settings.
pub(super) fn method(name: &str, settings: &str) -> anyhow::Result<Box<dyn Method>> {
    Ok(methods::parse(name, settings)?.method)
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

pub(super) fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// Cosine of two vectors; NaN when either is 0.
pub(super) fn cosine(a: &[f64], b: &[f64]) -> f64 {
    dot(a, b) / (norm(a) * norm(b))
}

pub(super) fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(x, y)| x - y).collect()
}

/// Largest absolute difference.
pub(super) fn gap(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

/// The largest of some numbers, 0 if there is none.
pub(super) fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, f64::max)
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The `p` quantile by linear interpolation of the sorted values.
pub(super) fn quantile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = p * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

/// Three significant digits.
pub(super) fn short(x: f64) -> String {
    significant(x, 3)
}

/// A rounding error as text, in coarse steps, so that machines whose `exp` differs in the last bit agree.
pub(super) fn error(x: f64) -> String {
    match [1e-14, 1e-12, 1e-9].into_iter().find(|limit| x.abs() < *limit) {
        Some(limit) => format!("below {limit:e}"),
        None => short(x),
    }
}

/// `Holds`, or `Fails` with the counterexample.
pub(super) fn holds(ok: bool, counterexample: impl FnOnce() -> String) -> Verdict {
    if ok { Verdict::Holds } else { Verdict::Fails(counterexample()) }
}
