//! [`Optimal`]: the best deterministic policy.

use super::tree::{EdgeId, Target, Tree};

/// The greatest value that any policy reaches, by dynamic programming over deterministic policies.
///
/// ```text
/// Q*(s,a) = E[R|y]  where s,a completes the response y,  else  γ V*(s')
/// V*(s)   = max_a Q*(s,a)          J* = V*(s_0)
/// ```
///
/// A softmax policy approaches `J*` but reaches it only in the limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimal {
    /// `V*(s)` per node.
    pub v: Vec<f64>,
    /// `Q*(s,a)` per edge.
    pub q: Vec<f64>,
    /// The best edge of each node; the first of equals.
    pub choice: Vec<EdgeId>,
    /// `J* = V*(s_0)`.
    pub j: f64,
}

impl Optimal {
    /// Solves the tree in O(edges).
    pub fn new(tree: &Tree) -> Optimal {
        let mut v = vec![f64::NEG_INFINITY; tree.node_count()];
        let mut q = vec![0.0; tree.edge_count()];
        let mut choice = vec![0; tree.node_count()];
        for node in tree.nodes().rev() {
            for edge in tree.edges_of(node) {
                q[edge] = match tree.target(edge) {
                    Target::Leaf(leaf) => tree.reward(leaf),
                    Target::Node(child) => tree.gamma() * v[child],
                };
                if q[edge] > v[node] {
                    (v[node], choice[node]) = (q[edge], edge);
                }
            }
        }
        let j = v[0];
        Optimal { v, q, choice, j }
    }
}
