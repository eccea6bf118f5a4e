//! A teacher that knows how the answer is graded.

use crate::{Oracle, Target};

/// The smallest probability of the teacher: what it excludes keeps a finite logarithm.
const SMALLEST: f64 = f64::MIN_POSITIVE;

/// `log P(a | s, the response is rewarded)` per edge, the Bayes posterior of the policy, for binary rewards.
///
/// ```text
/// π*(a|s) = π(a|s) P(R=1|s,a) / P(R=1|s)
/// ```
/// `successes` is `P(R=1|s)` per node. Where it is 0 the teacher has nothing to say and is the policy. A token after which
/// no reward is possible has the smallest positive probability.
pub fn log_probs(oracle: &Oracle, successes: &[f64]) -> Vec<f64> {
    let tree = oracle.tree;
    let posterior = |edge| {
        let before = successes[tree.edge_node(edge)];
        if before <= 0.0 {
            return oracle.log_probs[edge];
        }
        let after = match tree.target(edge) {
            Target::Leaf(leaf) => tree.reward(leaf),
            Target::Node(child) => successes[child],
        };
        (oracle.probs[edge] * after / before).max(SMALLEST).ln()
    };
    tree.edges().map(posterior).collect()
}
