//! Off-policy, unclipped: which traces give the policy gradient of the policy being updated.

use super::{EXACT, gap, tiny};
use grpo_lambda::mdp::Oracle;
use grpo_lambda::mdp::Tabular;
use grpo_lambda::mdp::zoo::RandomRewards::{Bits, Probabilities};
use grpo_lambda::trace::{Recent, RowNormalised, Sequence, Token, Trace};

/// `1` everywhere: the ratio of the whole response at every token.
#[derive(Debug)]
struct Product;

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

#[derive(Clone, Copy, PartialEq)]
enum Credit {
    /// `R / T` at every token, which adds up to the reward.
    Outcome,
    /// The true `A` of the policy being updated.
    Advantage,
}

/// Largest error of `E_mu sum_t grad(tau_t) credit_t` against `grad J` of the current policy.
fn error(trace: &dyn Trace, credit: Credit, seed: u64) -> f64 {
    let (tree, behaviour) = tiny(seed, if seed == 1 { Probabilities } else { Bits });
    let current = Tabular::random(&tree, seed + 200, 0.8);
    let (mu, pi) = (Oracle::new(&tree, &behaviour), Oracle::new(&tree, &current));
    let mut weights = vec![0.0; tree.edge_count()];
    for leaf in tree.leaves() {
        let path = tree.path(leaf);
        let x: Vec<f64> = path.iter().map(|&e| pi.log_probs[e] - mu.log_probs[e]).collect();
        let of = |&e: &usize| match credit {
            Credit::Outcome => tree.reward(leaf) / path.len() as f64,
            Credit::Advantage => pi.advantage(e),
        };
        let y: Vec<f64> = trace.apply(&x).iter().zip(&path).map(|(z, e)| z.exp() * of(e)).collect();
        for (&edge, g) in path.iter().zip(trace.adjoint(&y)) {
            weights[edge] += mu.leaf_prob(leaf) * g;
        }
    }
    gap(&current.backward(&tree, &weights), &pi.grad_j())
}

#[test]
fn off_policy_only_full_products_are_unbiased_prefix_products_with_the_true_advantage_too() {
    // [C20], without a clip.
    let traces: [(&str, &dyn Trace, bool, bool); 6] = [
        // (trace, exact with the outcome, exact with the true advantage)
        ("whole response", &Product, true, true),
        ("prefix product", &Recent { q: 1.0 }, false, true),
        ("decayed", &Recent { q: 0.9 }, false, false),
        ("normalised", &RowNormalised(Recent { q: 0.9 }), false, false),
        ("gspo", &Sequence, false, false),
        ("token", &Token, false, false),
    ];
    for (name, trace, outcome, advantage) in traces {
        for (credit, exact) in [(Credit::Outcome, outcome), (Credit::Advantage, advantage)] {
            for seed in [0, 1, 4] {
                let error = error(trace, credit, seed);
                assert_eq!(error < EXACT, exact, "{name} {seed}: {error:e}");
                assert!(exact || error > 1e-4, "{name} {seed}: biased by {error:e}");
            }
        }
    }
}
