//! Whether the shrunk counterexample is as small as one can be.

use grpo_lambda_mdp::zoo::{Family, LemmaCounterexample};
use grpo_lambda_mdp::{Oracle, Tabular};

use super::prefixes::{Prefix, prefixes};
use super::shrink::Shrunk;
use crate::experiments::common::vectors::largest;

/// The shrunk MDP by the oracle, and what is smaller.
pub(super) struct Minimal {
    pub(super) prefixes: usize,
    pub(super) responses: usize,
    /// Tokens of the longest response.
    pub(super) longest: usize,
    pub(super) excess: f64,
    /// The excess of the zoo's counterexample.
    pub(super) excess_of_zoo: f64,
    /// The largest excess of MDPs with two prefixes.
    pub(super) excess_of_two_prefixes: f64,
}

pub(super) fn minimal(shrunk: &Shrunk) -> anyhow::Result<Minimal> {
    let (tree, policy) = shrunk.tree.build()?;
    let known = LemmaCounterexample.tree()?;
    let excess = |oracle: &Oracle| largest(prefixes(oracle).iter().map(Prefix::excess));
    Ok(Minimal {
        prefixes: tree.node_count(),
        responses: tree.leaf_count(),
        longest: tree.max_len(),
        excess: excess(&Oracle::new(&tree, &policy)),
        excess_of_zoo: excess(&Oracle::new(&known, &Tabular::uniform(&known))),
        excess_of_two_prefixes: largest_excess_with_two_prefixes(),
    })
}

/// The largest excess of the printed lemma over MDPs with a prompt and one longer prefix, on a grid: EOS at the prompt with
/// probability `p` and reward `r`, else a prefix of value `v`.
fn largest_excess_with_two_prefixes() -> f64 {
    let grid = || (0..=20).map(|i| f64::from(i) / 20.0);
    let mut worst = f64::NEG_INFINITY;
    for p in grid() {
        for r in grid() {
            for v in grid() {
                worst = worst.max(p * r + (1.0 - p) * v - v - p);
            }
        }
    }
    worst
}
