//! MDPs by name and by seed.

use grpo_lambda_mdp::zoo::{self, Family, Random};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};

use super::vectors::norm;

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

/// The first `n` random MDPs from `seed` on that hold something to learn: `|∇J| > 0.001`.
pub(crate) fn random_mdps(n: usize, seed: u64, knobs: Random) -> anyhow::Result<Vec<Mdp>> {
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
