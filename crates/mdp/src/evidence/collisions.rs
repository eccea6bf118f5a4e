//! Collision probabilities.

use crate::Oracle;

/// `Σ_a π(a|s)²` per node: the probability that two draws agree.
pub fn per_node(oracle: &Oracle) -> Vec<f64> {
    let tree = oracle.tree;
    tree.nodes().map(|node| tree.edges_of(node).map(|e| oracle.probs[e].powi(2)).sum()).collect()
}
