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
