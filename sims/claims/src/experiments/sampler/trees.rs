//! Tree methods on trees that the policy samples itself, next to independent responses.

use crate::experiments::common::mdp::{Mdp, method, zoo_mdps};
use crate::experiments::common::{dot, norm};
use grpo_lambda_mdp::expected::{
    Branching, EntropySearch, Sampled, Situation, TreeSampling, branched, sampled,
};
use rayon::prelude::*;
use serde::Serialize;

/// Responses of the largest task.
const LARGEST: usize = 300;
/// Children of a node by level; segments are a third of the longest response.
const CHILDREN: [usize; 3] = [2, 2, 2];

/// The methods that branch, and the one that they are compared with.
pub(super) const METHODS: [(&str, &str); 4] =
    [("RLOO", "rloo"), ("SPO-tree", "spo_tree"), TREE_RL, ("TreeRPO (recon.)", "tree_rpo_reconstructed")];
pub(super) const TREE_RL: (&str, &str) = ("TreeRL", "tree_rl");
pub(super) const SAMPLINGS: [&str; 2] = ["independent", "own tree"];
/// The search that TreeRL publishes, with 30 leaves; RLOO next to it has 30 independent responses.
pub(super) const SEARCH: &str = "entropy search";

/// A method on a task; a row of `sampler_trees.csv`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TreeRow {
    pub(super) task: String,
    pub(super) method: &'static str,
    pub(super) sampling: &'static str,
    /// Cosine of the mean update with `∇J`, its length corrected for the noise of the mean, which may leave it above 1;
    /// none where noise hides the mean.
    pub(super) cosine_with_gradient: Option<f64>,
    /// `tr Var g / |E g|²`, over RLOO's; none likewise.
    pub(super) noise_over_rloo: Option<f64>,
    /// Its standard error over groups, as if the draws of the two were independent, which is too wide where they are
    /// shared; none likewise.
    pub(super) noise_over_rloo_error: Option<f64>,
    /// Tokens written, over those of as many independent responses.
    pub(super) tokens_over_rloo: f64,
}

/// The rows: the zoo's tasks up to [`LARGEST`] responses, by method and sampling.
pub(super) fn trees(groups: usize, seed: u64) -> anyhow::Result<Vec<TreeRow>> {
    let tasks = zoo_mdps(LARGEST)?;
    let learnable = |mdp: &&Mdp| mdp.tree.max_len() > 2 && norm(&mdp.oracle().grad_j()) > 1e-3;
    let rows = tasks.par_iter().filter(learnable).map(|mdp| on_task(mdp, groups, seed));
    Ok(rows.collect::<anyhow::Result<Vec<_>>>()?.concat())
}

fn on_task(mdp: &Mdp, groups: usize, seed: u64) -> anyhow::Result<Vec<TreeRow>> {
    let oracle = mdp.oracle();
    let branching =
        Branching { children: CHILDREN.to_vec(), segment: mdp.tree.max_len().div_ceil(CHILDREN.len()) };
    let gradient = oracle.grad_j();
    let reported = |found: &Sampled| {
        let (mean, (noise, error)) = (&found.estimate.update, found.noise?);
        let length = (found.estimate.total_variance() / noise).sqrt();
        Some((dot(mean, &gradient) / (length * norm(&gradient)), (noise, error)))
    };
    let row = |(name, registered), sampling, own: Option<&dyn TreeSampling>, leaves| {
        let method = method(registered, "reduction=response_sum")?;
        let situation = Situation::on_policy(&mdp.tree, &mdp.policy, leaves);
        let found = match own {
            Some(tree) => branched(method.as_ref(), &situation, tree, groups, seed),
            None => sampled(method.as_ref(), &situation, groups, seed),
        };
        let (cosine, noise) = reported(&found).unzip();
        let (noise, error) = noise.unzip();
        let tokens = |tree: &dyn TreeSampling| tree.tokens(&oracle) / (leaves as f64 * oracle.mean_length());
        anyhow::Ok(TreeRow {
            task: mdp.name.clone(),
            method: name,
            sampling,
            cosine_with_gradient: cosine,
            noise_over_rloo: noise,
            noise_over_rloo_error: error,
            tokens_over_rloo: own.map_or(1.0, tokens),
        })
    };
    let (leaves, search) = (branching.leaves(), EntropySearch::PUBLISHED);
    let rloo = |leaves| row(METHODS[0], SAMPLINGS[0], None, leaves);
    let mut rows = vec![rloo(leaves)?];
    for entry in METHODS.into_iter().skip(1) {
        rows.push(row(entry, SAMPLINGS[0], None, leaves)?);
        rows.push(row(entry, SAMPLINGS[1], Some(&branching), leaves)?);
    }
    over_first(&mut rows);
    let mut searched = vec![rloo(search.leaves())?, row(TREE_RL, SEARCH, Some(&search), search.leaves())?];
    over_first(&mut searched);
    rows.extend(searched.pop());
    Ok(rows)
}

/// Divides the noise of all rows by that of the first.
fn over_first(rows: &mut [TreeRow]) {
    let noise = |row: &TreeRow| row.noise_over_rloo.zip(row.noise_over_rloo_error);
    let base = noise(&rows[0]);
    for row in rows {
        let ratio = noise(row).zip(base).map(|(own, base)| over(own, base));
        (row.noise_over_rloo, row.noise_over_rloo_error) = ratio.unzip();
    }
}

/// The ratio of two independent estimates with its standard error; exactly 1 for one and the same.
fn over(own: (f64, f64), base: (f64, f64)) -> (f64, f64) {
    let ratio = own.0 / base.0;
    (ratio, if own == base { 0.0 } else { own.1.hypot(ratio * base.1) / base.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_ratio_has_both_errors_and_none_of_its_own_base() {
        let (ratio, error) = over((6.0, 0.3), (2.0, 0.2));
        assert!((ratio - 3.0).abs() < 1e-12 && (error / ratio - 0.05f64.hypot(0.1)).abs() < 1e-12);
        assert_eq!(over((2.0, 0.2), (2.0, 0.2)), (1.0, 0.0));
    }
}
