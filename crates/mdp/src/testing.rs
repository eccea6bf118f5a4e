//! Random MDPs and a brute-force evaluation to compare with.

use proptest::prelude::*;

use super::zoo::{Family, Random, RandomRewards};
use super::{Tabular, Tree};

/// Tolerance of identities between finite sums.
pub(super) const EXACT: f64 = 1e-12;

/// A small random tree with rewards of any kind and a random policy.
pub(super) fn any_mdp() -> impl Strategy<Value = (Tree, Tabular)> {
    let gamma = prop_oneof![Just(1.0), Just(0.0), 0.0..1.0];
    let rewards =
        prop_oneof![Just(RandomRewards::Bits), Just(RandomRewards::Probabilities), Just(RandomRewards::Real)];
    let shape = (any::<u64>(), 1usize..=4, 1usize..=5, 0.0..=1.0);
    (shape, rewards, 0.0..2.0, gamma).prop_map(|((seed, symbols, horizon, eos), rewards, scale, gamma)| {
        let family = Random { seed, symbols, horizon, eos, rewards, scale };
        let tree = family.tree().unwrap().with_gamma(gamma);
        let policy = family.initial(&tree);
        (tree, policy)
    })
}

/// `J` of any table of edge probabilities by enumeration: `Σ_y Π π(a|s) γ^(T-1) E[R|y]`.
pub(super) fn brute_j(tree: &Tree, probs: &[f64]) -> f64 {
    let term = |leaf| {
        let path = tree.path(leaf);
        path.iter().map(|&e| probs[e]).product::<f64>()
            * tree.gamma().powi(path.len() as i32 - 1)
            * tree.reward(leaf)
    };
    tree.leaves().map(term).sum()
}
