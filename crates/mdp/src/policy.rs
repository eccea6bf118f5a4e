//! [`Tabular`]: a softmax policy with one logit per (prefix, token).

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::draw::normal;
use super::tree::{EdgeId, NodeId, Tree};

/// A tabular softmax policy: one logit per edge of a [`Tree`], so that depth-separated prefixes share
/// nothing.
///
/// ```text
/// π(a|s) = exp θ(s,a) / Σ_b exp θ(s,b)            b over the legal tokens of s
/// ∂ log π(a|s) / ∂θ(s,b) = 1{a=b} - π(b|s)
/// ```
///
/// Every legal token has a positive probability as long as the exponential does not underflow.
#[derive(Clone, Debug, PartialEq)]
pub struct Tabular {
    /// `θ(s,a)`, one finite number per edge, in the tree's order.
    pub logits: Vec<f64>,
}

impl Tabular {
    /// All logits 0: every legal token is equally likely.
    pub fn uniform(tree: &Tree) -> Tabular {
        Tabular { logits: vec![0.0; tree.edge_count()] }
    }

    /// Independent normal logits with standard deviation `scale`, from ChaCha8 seeded with `seed`.
    pub fn random(tree: &Tree, seed: u64, scale: f64) -> Tabular {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        Tabular { logits: tree.edges().map(|_| scale * normal(&mut rng)).collect() }
    }

    /// The policy with the given logits.
    ///
    /// # Panics
    /// If there is not one finite logit per edge.
    pub fn from_logits(tree: &Tree, logits: Vec<f64>) -> Tabular {
        assert_eq!(logits.len(), tree.edge_count(), "one logit per edge");
        assert!(logits.iter().all(|x| x.is_finite()), "logits must be finite");
        Tabular { logits }
    }

    /// The policy with probabilities `weight(node, edge) / Σ`, the sum over the edges of the node; logits are
    /// the logarithms of the weights.
    ///
    /// # Panics
    /// If a weight is not positive and finite.
    pub fn from_weights(tree: &Tree, mut weight: impl FnMut(NodeId, EdgeId) -> f64) -> Tabular {
        let logit = |edge| {
            let weight = weight(tree.edge_node(edge), edge);
            assert!(weight > 0.0 && weight.is_finite(), "weight {weight} of edge {edge} must be positive");
            weight.ln()
        };
        Tabular { logits: tree.edges().map(logit).collect() }
    }

    /// `log π(a|s)` per edge, in nats: the log-softmax of each prefix's logits, stable for logits of any
    /// size.
    ///
    /// # Panics
    /// If the policy belongs to a tree of another size.
    pub fn log_probs(&self, tree: &Tree) -> Vec<f64> {
        let mut out = Vec::new();
        self.log_probs_into(tree, &mut out);
        out
    }

    /// [`log_probs`](Tabular::log_probs) into a buffer, whose content is replaced.
    ///
    /// # Panics
    /// If the policy belongs to a tree of another size.
    pub fn log_probs_into(&self, tree: &Tree, out: &mut Vec<f64>) {
        assert_eq!(self.logits.len(), tree.edge_count(), "the policy belongs to another tree");
        out.clear();
        out.extend_from_slice(&self.logits);
        for node in tree.nodes() {
            let row = &mut out[tree.edges_of(node)];
            let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let log_sum = row.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
            row.iter_mut().for_each(|x| *x = (*x - max) - log_sum);
        }
    }

    /// `π(a|s)` per edge.
    ///
    /// # Panics
    /// If the policy belongs to a tree of another size.
    pub fn probs(&self, tree: &Tree) -> Vec<f64> {
        let mut out = self.log_probs(tree);
        out.iter_mut().for_each(|x| *x = x.exp());
        out
    }

    /// Pulls a cotangent of the log-probabilities back to the logits.
    ///
    /// ```text
    /// ∂L/∂θ(s,a) = c(s,a) - π(a|s) Σ_b c(s,b)            c = ∂L/∂log π
    /// ```
    ///
    /// `cotangent` and the result have one entry per edge. With `c(s,a) = Σ` over sampled tokens of their
    /// `d loss / d log-prob`, this is the gradient that automatic differentiation would give.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn backward(&self, tree: &Tree, cotangent: &[f64]) -> Vec<f64> {
        pull_back(tree, &self.probs(tree), cotangent)
    }

    /// One step `θ ← θ + rate · direction`; `rate < 0` descends.
    ///
    /// # Panics
    /// If `direction` does not have one entry per logit.
    pub fn step(&mut self, direction: &[f64], rate: f64) {
        assert_eq!(direction.len(), self.logits.len(), "one entry per logit");
        self.logits.iter_mut().zip(direction).for_each(|(x, d)| *x += rate * d);
    }
}

/// [`Tabular::backward`] for a policy whose probabilities per edge are at hand.
pub(super) fn pull_back(tree: &Tree, probs: &[f64], cotangent: &[f64]) -> Vec<f64> {
    assert_eq!(cotangent.len(), tree.edge_count(), "one cotangent per edge");
    let mut out = cotangent.to_vec();
    for node in tree.nodes() {
        let edges = tree.edges_of(node);
        let total: f64 = cotangent[edges.clone()].iter().sum();
        for edge in edges {
            out[edge] -= probs[edge] * total;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Oracle, zoo, zoo::Family};
    use super::*;

    #[test]
    fn probabilities_sum_to_one_even_with_huge_logits() {
        let tree = zoo::full_tree(4, 3).unwrap();
        for scale in [0.0, 1.0, 400.0] {
            let policy = Tabular::random(&tree, 3, scale);
            assert!(policy.log_probs(&tree).iter().all(|x| x.is_finite() && *x <= 0.0));
            let probs = policy.probs(&tree);
            for node in tree.nodes() {
                assert!((probs[tree.edges_of(node)].iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn adding_a_constant_to_a_prefix_changes_nothing() {
        let tree = zoo::full_tree(3, 3).unwrap();
        let policy = Tabular::random(&tree, 4, 1.0);
        let shifted: Vec<f64> =
            tree.edges().map(|e| policy.logits[e] + 10.0 * tree.edge_node(e) as f64).collect();
        let shifted = Tabular::from_logits(&tree, shifted);
        for (a, b) in policy.log_probs(&tree).iter().zip(shifted.log_probs(&tree)) {
            assert!((a - b).abs() < 1e-12);
        }
    }

    #[test]
    fn weights_become_probabilities() {
        let tree = zoo::LemmaCounterexample.tree().unwrap();
        let policy = Tabular::from_weights(&tree, |_, e| if e == 0 { 3.0 } else { 1.0 });
        let probs = policy.probs(&tree);
        assert!((probs[0] - 0.75).abs() < 1e-15 && (probs[1] - 0.25).abs() < 1e-15 && probs[2] == 1.0);
    }

    #[test]
    fn backward_is_the_gradient_of_a_linear_function_of_log_probs() {
        let tree = zoo::full_tree(3, 3).unwrap();
        let policy = Tabular::random(&tree, 5, 1.0);
        let cotangent = Tabular::random(&tree, 6, 1.0).logits;
        let gradient = policy.backward(&tree, &cotangent);
        let value = |policy: &Tabular| -> f64 {
            policy.log_probs(&tree).iter().zip(&cotangent).map(|(x, c)| x * c).sum()
        };
        for edge in tree.edges() {
            let at = |h: f64| {
                let mut moved = policy.clone();
                moved.logits[edge] += h;
                value(&moved)
            };
            let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((numeric - gradient[edge]).abs() < 1e-8, "{numeric} {}", gradient[edge]);
        }
    }

    #[test]
    fn the_policy_gradient_theorem_is_backward_of_visit_times_q() {
        let tree = zoo::full_tree(3, 4).unwrap();
        let policy = Tabular::random(&tree, 7, 1.0);
        let oracle = Oracle::new(&tree, &policy);
        let cotangent: Vec<f64> = tree.edges().map(|e| oracle.edge_visit(e) * oracle.q[e]).collect();
        for (a, b) in policy.backward(&tree, &cotangent).iter().zip(oracle.grad_j()) {
            assert!((a - b).abs() < 1e-14);
        }
    }
}
