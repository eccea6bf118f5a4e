//! MDPs by name and by seed; registered methods on small groups.

use super::norm;
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{self, BatchLoss, Method};
use grpo_lambda_mdp::expected::{Situation, implied_mean};
use grpo_lambda_mdp::zoo::{self, Family, Random};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};

/// An MDP with the policy to examine it at.
pub(crate) struct Mdp {
    pub(crate) name: String,
    pub(crate) tree: Tree,
    pub(crate) policy: Tabular,
}

impl Mdp {
    /// The default instance of a family of the zoo, at its suggested initial policy.
    pub(crate) fn named(name: &str) -> anyhow::Result<Mdp> {
        let entry = zoo::find(name).ok_or_else(|| anyhow::anyhow!("the zoo has no `{name}`"))?;
        let tree = (entry.build)();
        let policy = (entry.initial)(&tree);
        Ok(Mdp { name: name.to_owned(), tree, policy })
    }

    pub(crate) fn random(family: Random) -> anyhow::Result<Mdp> {
        let tree = family.tree()?;
        let policy = family.initial(&tree);
        Ok(Mdp { name: format!("random {}", family.seed), tree, policy })
    }

    pub(crate) fn oracle(&self) -> Oracle<'_> {
        Oracle::new(&self.tree, &self.policy)
    }
}

/// The families of the zoo with at most so many responses, at their defaults.
pub(crate) fn zoo_mdps(most_responses: usize) -> anyhow::Result<Vec<Mdp>> {
    let mut mdps =
        zoo::all().into_iter().map(|entry| Mdp::named(entry.name)).collect::<anyhow::Result<Vec<_>>>()?;
    mdps.retain(|mdp| mdp.tree.leaf_count() <= most_responses);
    Ok(mdps)
}

/// The first `n` random MDPs from `seed` on that hold something to learn: `|∇J| > 0.001`.
pub(crate) fn random_mdps(n: usize, seed: u64, knobs: Random) -> anyhow::Result<Vec<Mdp>> {
    let all = seeds(seed).map(|seed| Mdp::random(Random { seed, ..knobs }));
    let learnable = |mdp: &Mdp| norm(&mdp.oracle().grad_j()) > 1e-3;
    all.filter(|mdp| mdp.as_ref().map_or(true, learnable)).take(n).collect()
}

/// The seeds of a run's random MDPs; 0 follows the largest.
pub(crate) fn seeds(seed: u64) -> impl Iterator<Item = u64> {
    let first = seed.wrapping_mul(100_000);
    (0..=u64::MAX).map(move |i| first.wrapping_add(i))
}

/// A registered method by name and settings.
pub(crate) fn method(name: &str, settings: &str) -> anyhow::Result<Box<dyn Method>> {
    Ok(methods::parse(name, settings)?.method)
}

/// The expected update of a registered method on groups of a policy, by [`implied_mean`].
pub(crate) fn mean_update(
    (name, settings): (&str, &str),
    (tree, policy): (&Tree, &Tabular),
    group: usize,
) -> anyhow::Result<Vec<f64>> {
    let method = method(name, settings)?;
    Ok(implied_mean(method.as_ref(), &Situation::on_policy(tree, policy, group))?)
}

/// A group whose responses have these rewards and sampling log-probabilities.
pub(crate) fn group(rewards: &[f64], old_logps: &[Vec<f64>]) -> Group {
    let response = |(&r, logps): (&f64, &Vec<f64>)| Response::graded(logps.clone(), r);
    Group { responses: rewards.iter().zip(old_logps).map(response).collect() }
}

/// Loss and gradient of a method on one group at current log-probabilities.
pub(crate) fn evaluate(
    name: &str,
    settings: &str,
    group: &Group,
    logps: &[Vec<f64>],
) -> anyhow::Result<BatchLoss> {
    Ok(methods::evaluate(method(name, settings)?.as_ref(), std::slice::from_ref(group), logps))
}

/// The on-policy weight of every token of a response under a variant of GRPO-lambda: its `dlogps` over that of GRPO
/// (token mean) on the same group of two responses, one right and one wrong, sampled with log-probabilities `logps`.
pub(crate) fn on_policy_weights(settings: &str, logps: &[f64]) -> anyhow::Result<Vec<f64>> {
    let both = vec![logps.to_vec(); 2];
    let pair = group(&[1.0, 0.0], &both);
    let ours = evaluate("grpo_lambda", &format!("clamp=none {settings}"), &pair, &both)?;
    let grpo = evaluate("grpo", "reduction=token_mean", &pair, &both)?;
    Ok(ours.dlogps[0].iter().zip(&grpo.dlogps[0]).map(|(a, b)| a / b).collect())
}
