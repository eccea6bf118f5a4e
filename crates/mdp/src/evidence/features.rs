//! A fixed function of a prefix, in place of the hidden states that a table does not have.

use crate::Tree;

/// Indicators of tokens by position: entry `k V + v` of the prefix `a_0 .. a_t` is 1 where `a_k` is token `v` of the `V` of the tree, else 0.
///
/// The cosine of two prefixes of one length is the share of positions at which they agree. One vector per edge, of the prefix that ends with it, of
/// width `V` times the horizon.
pub fn tokens_by_position(tree: &Tree) -> Vec<Vec<f64>> {
    let symbols = tree.tokens().len();
    let mut all: Vec<Vec<f64>> = Vec::with_capacity(tree.edge_count());
    for edge in tree.edges() {
        let node = tree.edge_node(edge);
        // Edges of a node come before those of its children.
        let before = tree.parent_edge(node).map(|e| all[e].clone());
        let mut features = before.unwrap_or_else(|| vec![0.0; symbols * tree.horizon()]);
        features[tree.depth(node) * symbols + tree.token(edge) as usize] = 1.0;
        all.push(features);
    }
    all
}
