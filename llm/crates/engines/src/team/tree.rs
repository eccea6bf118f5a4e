//! The order of summation, which does not depend on the number of processes.

use std::ops::Range;

use grpo_lambda_decoder::model::ops::norm;

/// A complete subtree of the sum over shards: its leaves and their sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its first leaf, a multiple of `len`.
    pub start: usize,
    /// The number of leaves, a power of two.
    pub len: usize,
    /// Their sum.
    pub sum: Vec<f32>,
}

/// Subtrees that are added as soon as both halves of a larger one are there.
///
/// ```
/// use grpo_lambda_engines::team::tree::{Forest, Node};
///
/// let mut forest = Forest::default();
/// for (start, leaf) in [1e8f32, 1.0, -1e8, 1.0].into_iter().enumerate() {
///     forest.push(Node { start, len: 1, sum: vec![leaf] });
/// }
/// // (1e8 + 1) + (-1e8 + 1) loses both ones; from left to right the last would have been left.
/// assert_eq!(forest.nodes(), [Node { start: 0, len: 4, sum: vec![0.0] }]);
/// assert_eq!(((1e8f32 + 1.0) - 1e8) + 1.0, 1.0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Forest {
    nodes: Vec<Node>,
}

impl Forest {
    /// Adds the next subtree; leaves come in order.
    pub fn push(&mut self, node: Node) {
        self.nodes.push(node);
        while let [.., left, right] = self.nodes.as_mut_slice()
            && left.len == right.len
            && left.start.is_multiple_of(2 * left.len)
        {
            norm::add(&mut left.sum, &right.sum);
            left.len *= 2;
            self.nodes.pop();
        }
    }

    /// The subtrees that are left: one where the leaves are those of a complete tree.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// [`Forest::nodes`], taken.
    pub fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }
}

/// First leaf and number of leaves of the subtrees into which a [`Forest`] adds up consecutive leaves.
pub fn blocks(leaves: Range<usize>) -> Vec<(usize, usize)> {
    let mut forest = Forest::default();
    leaves.for_each(|start| forest.push(Node { start, len: 1, sum: Vec::new() }));
    forest.nodes.iter().map(|node| (node.start, node.len)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::Shards;

    fn leaf(start: usize, value: f32) -> Node {
        Node { start, len: 1, sum: vec![value] }
    }

    /// Leaves whose sum has other bits under other associations, with the sums written out; whoever adds which part of them.
    #[test]
    fn leaves_are_added_as_a_complete_binary_tree_whoever_adds_which() {
        let l: [f32; 8] = [1e8, 9.0, -1e8, 5.0, 0.1, -3.0, 7.0, 0.3];
        let tree = ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
        let chain = l.iter().fold(0.0, |a, b| a + b);
        let halves = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
        assert!(tree != chain && tree != halves && chain != halves, "{tree} {chain} {halves}: no test");
        for processes in 1..=8 {
            let shards = Shards::new(8, processes).expect("enough shards");
            let mut all = Forest::default();
            for rank in 0..processes {
                let mut own = Forest::default();
                shards.owned_by(rank).for_each(|s| own.push(leaf(s, l[s])));
                let told: Vec<(usize, usize)> = own.nodes().iter().map(|n| (n.start, n.len)).collect();
                assert_eq!(told, blocks(shards.owned_by(rank)));
                own.into_nodes().into_iter().for_each(|node| all.push(node));
            }
            let [root] = all.nodes() else { panic!("{processes}: {all:?}") };
            assert_eq!((root.start, root.len, root.sum[0].to_bits()), (0, 8, tree.to_bits()), "{processes}");
        }
    }

    #[test]
    fn leaves_of_different_subtrees_are_not_added() {
        assert_eq!(blocks(0..8), [(0, 8)]);
        assert_eq!(blocks(1..8), [(1, 1), (2, 2), (4, 4)]);
        assert_eq!(blocks(3..7), [(3, 1), (4, 2), (6, 1)]);
        assert!(blocks(2..2).is_empty());
    }
}
