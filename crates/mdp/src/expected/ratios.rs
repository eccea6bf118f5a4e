//! The expected update of a bare trace of ratios: no clip, no group, a credit that is given.

use crate::{Oracle, Tabular, Tree};
use grpo_lambda::trace::Trace;

/// The credit that multiplies a token's ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RatioCredit {
    /// `R/T` at every token, which adds up to the reward.
    Outcome,
    /// The true advantage under the policy that is updated.
    Advantage,
}

/// The ratio of the whole response at every token: `E[t,k] = 1` everywhere, so that `exp(z_t) = pi(y)/mu(y)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product;

impl Trace for Product {
    fn weight(&self, _: usize, _: usize, _: usize) -> f64 {
        1.0
    }
    fn apply_into(&self, x: &[f64], z: &mut [f64]) {
        z.fill(x.iter().sum());
    }
    fn adjoint_into(&self, y: &[f64], g: &mut [f64]) {
        g.fill(y.iter().sum());
    }
}

/// ```text
/// E_mu[ sum_t ∇tau_t c_t ],        tau_t = exp(sum_k E[t,k] x_k),        x = log pi - log mu
/// ```
/// as a gradient in the logits of `current` (`pi`), responses drawn from `behaviour` (`mu`). It is `∇J(pi)` for some traces only.
pub fn under_ratios(
    tree: &Tree,
    behaviour: &Tabular,
    current: &Tabular,
    trace: &dyn Trace,
    credit: RatioCredit,
) -> Vec<f64> {
    let (mu, pi) = (Oracle::new(tree, behaviour), Oracle::new(tree, current));
    let mut weights = vec![0.0; tree.edge_count()];
    for leaf in tree.leaves() {
        let path = tree.path(leaf);
        let x: Vec<f64> = path.iter().map(|&e| pi.log_probs[e] - mu.log_probs[e]).collect();
        let credit_of = |&e: &usize| match credit {
            RatioCredit::Outcome => tree.reward(leaf) / path.len() as f64,
            RatioCredit::Advantage => pi.advantage(e),
        };
        let y: Vec<f64> = trace.apply(&x).iter().zip(&path).map(|(z, e)| z.exp() * credit_of(e)).collect();
        for (&edge, g) in path.iter().zip(trace.adjoint(&y)) {
            weights[edge] += mu.leaf_prob(leaf) * g;
        }
    }
    current.backward(tree, &weights)
}
