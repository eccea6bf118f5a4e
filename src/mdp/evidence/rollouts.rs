//! Values of prefixes from completions of them.

use rand::Rng;

use crate::group::StepValue;
use crate::mdp::{EdgeId, Oracle, Sampler, Target, sample_reward};

/// The mean reward to come per node, not discounted: what infinitely many completions would average.
pub fn expected(oracle: &Oracle) -> Vec<f64> {
    let tree = oracle.tree;
    let mut mean = vec![0.0; tree.node_count()];
    for node in tree.nodes().rev() {
        let after = |edge: EdgeId| match tree.target(edge) {
            Target::Leaf(leaf) => tree.reward(leaf),
            Target::Node(child) => mean[child],
        };
        mean[node] = tree.edges_of(node).map(|e| oracle.probs[e] * after(e)).sum();
    }
    mean
}

/// Every token a step of its own.
pub fn every_token(values: &[f64]) -> Vec<StepValue> {
    values.iter().enumerate().map(|(start, &value)| StepValue { start, value }).collect()
}

/// The mean reward of `k` fresh completions of the prefix before each token in `starts` of the response `path`.
///
/// # Panics
/// If `k` is 0 or a start lies outside the response.
pub fn monte_carlo(
    sampler: &Sampler,
    path: &[EdgeId],
    starts: &[usize],
    k: usize,
    rng: &mut impl Rng,
) -> Vec<StepValue> {
    assert!(k > 0, "a mean needs at least one completion");
    let tree = sampler.tree();
    let step = |&start: &usize| {
        let node = tree.edge_node(path[start]);
        let total: f64 = (0..k).map(|_| sample_reward(tree, sampler.complete(node, rng), rng)).sum();
        StepValue { start, value: total / k as f64 }
    };
    starts.iter().map(step).collect()
}
