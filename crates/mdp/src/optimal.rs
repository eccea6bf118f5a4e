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

#[cfg(test)]
mod tests {
    use super::super::testing::{EXACT, any_mdp, brute_j};
    use super::super::{Oracle, Rules, Tabular};
    use super::*;
    use proptest::prelude::*;

    /// The greatest `γ^(T-1) E[R|y]`: with deterministic transitions a deterministic policy is a choice of
    /// one response.
    fn best_response(tree: &Tree) -> f64 {
        let discounted = |leaf| tree.gamma().powi(tree.leaf_len(leaf) as i32 - 1) * tree.reward(leaf);
        tree.leaves().map(discounted).fold(f64::NEG_INFINITY, f64::max)
    }

    proptest! {
        #[test]
        fn j_star_is_the_best_response_and_is_reached_by_the_choices((tree, policy) in any_mdp()) {
            let best = Optimal::new(&tree);
            prop_assert!((best.j - best_response(&tree)).abs() < EXACT);
            let mut probs = vec![0.0; tree.edge_count()];
            best.choice.iter().for_each(|&edge| probs[edge] = 1.0);
            prop_assert!((brute_j(&tree, &probs) - best.j).abs() < EXACT);
            let oracle = Oracle::new(&tree, &policy);
            prop_assert!(tree.nodes().all(|n| oracle.v[n] <= best.v[n] + EXACT));
            prop_assert!(tree.edges().all(|e| oracle.q[e] <= best.q[e] + EXACT));
        }
    }

    #[test]
    fn gradient_ascent_approaches_j_star() {
        let tree = Rules::new(["a", "b", "E"], 3)
            .build(|_| vec![0, 1, 2], |response, _| if response == [1, 0, 2] { 0.9 } else { 0.1 })
            .unwrap();
        let mut policy = Tabular::uniform(&tree);
        for _ in 0..2000 {
            let gradient = Oracle::new(&tree, &policy).grad_j();
            policy.step(&gradient, 5.0);
        }
        assert!((Oracle::new(&tree, &policy).j - Optimal::new(&tree).j).abs() < 1e-3);
    }
}
