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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo::{Family, Fork};

    #[test]
    fn two_prefixes_of_one_length_agree_at_as_many_positions_as_their_product_says() {
        let tree = Fork::default().tree().expect("knobs in range");
        let features = tokens_by_position(&tree);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut compared = 0;
        let paths: Vec<_> = tree.leaves().map(|leaf| tree.path(leaf)).collect();
        for (a, b) in paths.iter().flat_map(|a| paths.iter().map(move |b| (a, b))) {
            for t in 0..a.len().min(b.len()) {
                let agree = (0..=t).filter(|&k| tree.token(a[k]) == tree.token(b[k])).count();
                assert_eq!(dot(&features[a[t]], &features[b[t]]), agree as f64);
                compared += usize::from(agree <= t);
            }
        }
        assert!(compared > 10, "{compared}");
    }
}
