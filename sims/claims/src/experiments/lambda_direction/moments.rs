//! Mean and covariance of the estimator of one response, by enumeration.

use grpo_lambda::advantage::gae;
use grpo_lambda_mdp::{Oracle, Tabular, Target};

/// The critics, from exact to useless.
pub(super) const CRITICS: [&str; 5] = ["exact", "perturbed", "stale", "constant", "zero"];

/// The critic's value of every prefix.
pub(super) fn critic(name: &str, oracle: &Oracle, seed: u64) -> Vec<f64> {
    let tree = oracle.tree;
    match name {
        "exact" => oracle.v.clone(),
        "perturbed" => {
            // One standard normal number per prefix: that of its first edge.
            let noise = Tabular::random(tree, seed ^ 0x5eed, 1.0).logits;
            tree.nodes().map(|n| oracle.v[n] + 0.3 * noise[tree.edges_of(n).start]).collect()
        }
        "stale" => Oracle::new(tree, &Tabular::random(tree, seed ^ 0x01d, 1.0)).v,
        "constant" => vec![oracle.j; tree.node_count()],
        _ => vec![0.0; tree.node_count()],
    }
}

pub(super) struct Moments {
    /// The mean.
    pub(super) mean: Vec<f64>,
    /// The trace of the covariance.
    pub(super) variance: f64,
    /// `E[A_t|s,a]` per edge.
    pub(super) credit: Vec<f64>,
    /// `Var(A_t|s,a)` per edge.
    pub(super) spread: Vec<f64>,
}

pub(super) fn moments(oracle: &Oracle, critic: &[f64], lambda: f64) -> Moments {
    let tree = oracle.tree;
    let (mut credit, mut square) = weighted_sums(oracle, critic, lambda);
    let mut second = 0.0;
    for node in tree.nodes() {
        let collision: f64 = tree.edges_of(node).map(|e| oracle.probs[e] * oracle.probs[e]).sum();
        for e in tree.edges_of(node) {
            // |∇log π(a|s)|² with respect to the logits of s.
            second += square[e] * (1.0 - 2.0 * oracle.probs[e] + collision);
            let visit = oracle.edge_visit(e);
            credit[e] /= visit;
            square[e] = square[e] / visit - credit[e] * credit[e];
        }
    }
    let mean = oracle.update_of_credit(&credit);
    let variance = second - mean.iter().map(|m| m * m).sum::<f64>();
    Moments { mean, variance, credit, spread: square }
}

/// Sums of `A_t` and of its square over responses, each weighted by its probability, per edge.
fn weighted_sums(oracle: &Oracle, critic: &[f64], lambda: f64) -> (Vec<f64>, Vec<f64>) {
    let tree = oracle.tree;
    let (mut sum, mut square) = (vec![0.0; tree.edge_count()], vec![0.0; tree.edge_count()]);
    let mut path = Vec::new();
    for leaf in tree.leaves() {
        tree.path_into(leaf, &mut path);
        let values: Vec<f64> = path.iter().map(|&e| critic[tree.edge_node(e)]).collect();
        for (reward, p) in tree.outcomes(leaf) {
            let mut rewards = vec![0.0; path.len()];
            rewards[path.len() - 1] = reward;
            let weight = p * oracle.leaf_prob(leaf);
            for (&edge, a) in path.iter().zip(gae(&rewards, &values, 1.0, lambda)) {
                sum[edge] += weight * a;
                square[edge] += weight * a * a;
            }
        }
    }
    (sum, square)
}

/// The claimed `Var(A_t|s,a) = Var(R|y at t) + Σ_{l>=1} λ^{2l} E[δ²_{t+l}|s,a]` per edge, exact critic, by dynamic
/// programming; the first term is the grader's noise where `s,a` completes the response.
pub(super) fn spread_formula(oracle: &Oracle, lambda: f64) -> Vec<f64> {
    let tree = oracle.tree;
    let mut total = vec![0.0; tree.edge_count()]; // Σ_{l>=0} λ^{2l} E[δ²_{t+l}|s,a]
    for node in tree.nodes().rev() {
        for edge in tree.edges_of(node) {
            let own = oracle.advantage(edge).powi(2);
            total[edge] = own
                + match tree.target(edge) {
                    Target::Leaf(leaf) => tree.reward_squared(leaf) - tree.reward(leaf).powi(2),
                    Target::Node(child) => {
                        let later: f64 = tree.edges_of(child).map(|e| oracle.probs[e] * total[e]).sum();
                        lambda * lambda * later
                    }
                };
        }
    }
    tree.edges().map(|e| total[e] - oracle.advantage(e).powi(2)).collect()
}
