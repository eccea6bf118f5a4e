//! A counterexample to Lemma 1 found by random search, and shrunk greedily.
//!
//! A move is accepted if the printed bound is still violated somewhere; moves that make the tree smaller come before those that make its
//! numbers rounder.

use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::{Family, Random};

use super::prefixes::VISIBLE;
use super::subtree::Subtree;

/// One accepted state of the shrinker.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The move that led here.
    pub(super) name: &'static str,
    pub(super) prefixes: usize,
    pub(super) responses: usize,
    pub(super) excess: f64,
}

impl Step {
    fn new(name: &'static str, tree: &Subtree) -> Step {
        Step { name, prefixes: tree.prefixes(), responses: tree.responses(), excess: excess(tree) }
    }
}

/// A counterexample to the printed lemma from which nothing can be taken away.
pub(super) struct Shrunk {
    pub(super) tree: Subtree,
    /// MDPs drawn until one violated the bound.
    pub(super) examined: u64,
    /// From the MDP that was found on.
    pub(super) steps: Vec<Step>,
}

/// The largest excess over the printed bound.
fn excess(tree: &Subtree) -> f64 {
    let (gap, bound) = tree.worst();
    gap - bound
}

impl Shrunk {
    /// `V(s_0) - V(s_t)` at the worst prefix.
    pub(super) fn gap(&self) -> f64 {
        self.tree.worst().0
    }

    /// The printed bound there.
    pub(super) fn bound(&self) -> f64 {
        self.tree.worst().1
    }

    pub(super) fn excess(&self) -> f64 {
        excess(&self.tree)
    }
}

/// Draws random MDPs from `seed` on until one breaks the printed lemma, then shrinks it until no move is left.
pub(super) fn search(seed: u64) -> anyhow::Result<Shrunk> {
    let mut examined = 0;
    let mut tree = loop {
        // A horizon of 5 with EOS legal everywhere; what is cut at the horizon ends with EOS instead.
        let family = Random { seed: seed + examined, symbols: 3, horizon: 5, eos: 1.0, ..Random::default() };
        let tree = family.tree()?;
        let drawn = Subtree::of(&Oracle::new(&tree, &family.initial(&tree)), 0);
        examined += 1;
        if excess(&drawn) > VISIBLE {
            break drawn;
        }
    };
    let mut steps = vec![Step::new("found", &tree)];
    let violates = |(_, moved): &(&'static str, Subtree)| excess(moved) > VISIBLE;
    while let Some((name, moved)) = tree.moves().into_iter().find(violates) {
        tree = moved;
        steps.push(Step::new(name, &tree));
    }
    Ok(Shrunk { tree, examined, steps })
}
