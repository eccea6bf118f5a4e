//! Both sides of the theorem in exact rationals.

use grpo_lambda::trace::scan;
use grpo_lambda_mdp::{EdgeId, Tree, zoo};
use num_rational::Ratio;
use rand_chacha::ChaCha8Rng;

use crate::experiments::common::random::symmetric;

type Rational = Ratio<i128>;

/// Longest response for which numerators and denominators with `γλ = 99/100` fit into 128 bits.
const TOKENS: usize = 8;
/// Responses of the largest MDP taken.
const RESPONSES: usize = 64;
/// The values of `γλ`.
const QS: [(i128, i128); 6] = [(0, 1), (1, 2), (9, 10), (98, 100), (99, 100), (1, 1)];

/// Components of policy gradients compared, and how many of them differ.
#[derive(Clone, Copy, Default)]
pub(super) struct Rationals {
    pub(super) compared: usize,
    pub(super) different: usize,
}

/// Every response of the zoo's small MDPs, under a policy with rational probabilities.
pub(super) fn in_rationals(rng: &mut ChaCha8Rng) -> Rationals {
    let mut found = Rationals::default();
    for entry in zoo::all() {
        let tree = (entry.build)();
        if tree.leaf_count() > RESPONSES {
            continue;
        }
        for leaf in tree.leaves() {
            let path = tree.path(leaf);
            if path.len() > TOKENS {
                continue;
            }
            let delta: Vec<Rational> =
                path.iter().map(|_| Rational::new((symmetric(rng) * 8.0) as i128, 8)).collect();
            for (numerator, denominator) in QS {
                found.add(&tree, &path, &delta, Rational::new(numerator, denominator));
            }
        }
    }
    found
}

impl Rationals {
    fn add(&mut self, tree: &Tree, path: &[EdgeId], delta: &[Rational], q: Rational) {
        let mut advantages = delta.to_vec();
        scan::decayed_suffix(q, &mut advantages);
        // A response visits a prefix once, so a component of ∇_t is not zero at one t only.
        for (at, &taken) in path.iter().enumerate() {
            for edge in tree.edges_of(tree.edge_node(taken)) {
                let nabla = component(tree, taken, edge);
                let mut trace = vec![Rational::from_integer(0); path.len()];
                trace[at] = nabla;
                scan::decayed_prefix(q, &mut trace);
                let backward: Rational = delta.iter().zip(&trace).map(|(d, e)| d * e).sum();
                self.compared += 1;
                self.different += usize::from(backward != advantages[at] * nabla);
            }
        }
    }
}

/// The component of `∇log π(taken)` at the logit of `edge`, a sibling of `taken` or `taken` itself. Integer weights of the legal tokens
/// make every probability rational.
fn component(tree: &Tree, taken: EdgeId, edge: EdgeId) -> Rational {
    let weight = |edge: EdgeId| (edge % 3 + 1) as i128;
    let total: i128 = tree.edges_of(tree.edge_node(taken)).map(weight).sum();
    Rational::from_integer(i128::from(edge == taken)) - Rational::new(weight(edge), total)
}
