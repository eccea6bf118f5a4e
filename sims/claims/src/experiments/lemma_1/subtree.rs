//! A counterexample to Lemma 1 found by random search and shrunk greedily: MDPs as plain trees whose responses all end with EOS.
//!
//! A move is accepted if the printed bound is still violated somewhere; moves that make the tree smaller come before moves that make its
//! numbers rounder.

use super::corrected::{Prefix, VISIBLE, prefixes};
use crate::experiments::common::vectors::largest;
use grpo_lambda_mdp::zoo::{Family, LemmaCounterexample, Random};
use grpo_lambda_mdp::{Oracle, Rules, Tabular, Target, Tree};
use grpo_lambda_stats::table::significant;

/// The continuation after a token.
#[derive(Clone, Debug, PartialEq)]
enum Next {
    /// EOS: the response ends with this reward.
    End(f64),
    /// A longer prefix.
    More(Subtree),
}

/// A prefix with all its continuations: its tokens with their probabilities. At most one of them is EOS.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Subtree {
    tokens: Vec<(f64, Next)>,
}

impl Subtree {
    /// The oracle's tree below `node`; a token that is cut at the horizon becomes a prefix that ends at once.
    pub(super) fn below(oracle: &Oracle, node: usize) -> Subtree {
        let tree = oracle.tree;
        let next = |edge| match tree.target(edge) {
            Target::Node(child) => Next::More(Subtree::below(oracle, child)),
            Target::Leaf(leaf) if tree.truncated(leaf) => Next::More(Subtree::ends(tree.reward(leaf))),
            Target::Leaf(leaf) => Next::End(tree.reward(leaf)),
        };
        Subtree { tokens: tree.edges_of(node).map(|e| (oracle.probs[e], next(e))).collect() }
    }

    /// A prefix that ends at once.
    fn ends(reward: f64) -> Subtree {
        Subtree { tokens: vec![(1.0, Next::End(reward))] }
    }

    /// A choice of two prefixes that end at once, the first of them rewarded.
    #[cfg(test)]
    pub(super) fn two_tokens() -> Subtree {
        Subtree { tokens: [1.0, 0.0].map(|reward| (0.5, Next::More(Subtree::ends(reward)))).into() }
    }

    fn value(&self) -> f64 {
        let value = |next: &Next| match next {
            Next::End(reward) => *reward,
            Next::More(subtree) => subtree.value(),
        };
        self.tokens.iter().map(|(p, next)| p * value(next)).sum()
    }

    fn eos(&self) -> f64 {
        self.tokens.iter().filter(|(_, next)| matches!(next, Next::End(_))).map(|(p, _)| p).sum()
    }

    pub(super) fn prefixes(&self) -> usize {
        1 + self.children().map(Subtree::prefixes).sum::<usize>()
    }

    pub(super) fn responses(&self) -> usize {
        let ends = self.tokens.iter().filter(|(_, next)| matches!(next, Next::End(_))).count();
        ends + self.children().map(Subtree::responses).sum::<usize>()
    }

    fn children(&self) -> impl Iterator<Item = &Subtree> {
        self.tokens
            .iter()
            .filter_map(|(_, next)| if let Next::More(subtree) = next { Some(subtree) } else { None })
    }

    /// The worst prefix of the printed lemma: `V(s_0) - V(s_t)` and `1 - Π (1 - π(EOS|s_k))`.
    pub(super) fn worst(&self) -> (f64, f64) {
        let mut worst = (f64::NEG_INFINITY, 0.0);
        self.visit(1.0, &mut |value, product| {
            let (gap, bound) = (self.value() - value, 1.0 - product);
            if gap - bound > worst.0 - worst.1 {
                worst = (gap, bound);
            }
        });
        worst
    }

    /// Calls `f(value, path product)` for every longer prefix.
    fn visit(&self, product: f64, f: &mut impl FnMut(f64, f64)) {
        let product = product * (1.0 - self.eos());
        for child in self.children() {
            f(child.value(), product);
            child.visit(product, f);
        }
    }

    /// Every tree that one move makes, with the name of the move: first those that are smaller.
    pub(super) fn moves(&self) -> Vec<(&'static str, Subtree)> {
        let mut out = Vec::new();
        self.smaller(&mut |name, moved| out.push((name, moved)));
        self.rounder(&mut |name, moved| out.push((name, moved)));
        out
    }

    fn smaller(&self, emit: &mut dyn FnMut(&'static str, Subtree)) {
        for i in 0..self.tokens.len() {
            if let (Next::More(child), true) = (&self.tokens[i].1, self.tokens.len() == 1) {
                emit("skip a prefix without choice", child.clone());
            }
            if self.tokens.len() > 1 {
                let mut fewer = self.clone();
                fewer.tokens.remove(i);
                let rest: f64 = fewer.tokens.iter().map(|(p, _)| p).sum();
                fewer.tokens.iter_mut().for_each(|(p, _)| *p /= rest);
                emit("remove a token", fewer);
            }
        }
        for reward in [0.0, 1.0] {
            let only_eos = Subtree::ends(reward);
            if *self != only_eos && self.tokens.len() > 1 {
                emit("end a prefix", only_eos);
            }
        }
        self.inside(emit, Subtree::smaller);
    }

    fn rounder(&self, emit: &mut dyn FnMut(&'static str, Subtree)) {
        let even = 1.0 / self.tokens.len() as f64;
        if self.tokens.iter().any(|(p, _)| *p != even) {
            let mut uniform = self.clone();
            uniform.tokens.iter_mut().for_each(|(p, _)| *p = even);
            emit("make a prefix uniform", uniform);
        }
        for i in 0..self.tokens.len() {
            if self.tokens[i].1 == Next::End(1.0) {
                let mut unrewarded = self.clone();
                unrewarded.tokens[i].1 = Next::End(0.0);
                emit("take a reward away", unrewarded);
            }
        }
        self.inside(emit, Subtree::rounder);
    }

    /// The moves of the subtrees.
    fn inside(
        &self,
        emit: &mut dyn FnMut(&'static str, Subtree),
        moves: fn(&Subtree, &mut dyn FnMut(&'static str, Subtree)),
    ) {
        for i in 0..self.tokens.len() {
            if let Next::More(child) = &self.tokens[i].1 {
                moves(child, &mut |name, moved| {
                    let mut whole = self.clone();
                    whole.tokens[i].1 = Next::More(moved);
                    emit(name, whole);
                });
            }
        }
    }

    /// The tree in a line: `0.5 A(EOS→1) | 0.5 B(EOS→0)`.
    pub(super) fn describe(&self) -> String {
        let one = |(i, (p, next)): (usize, &(f64, Next))| {
            let continuation = match next {
                Next::End(reward) => format!("EOS→{}", significant(*reward, 3)),
                Next::More(child) => format!("{}({})", letter(i), child.describe()),
            };
            if *p == 1.0 { continuation } else { format!("{} {continuation}", significant(*p, 3)) }
        };
        self.tokens.iter().enumerate().map(one).collect::<Vec<_>>().join(" | ")
    }

    /// The most tokens of any prefix.
    fn widest(&self) -> usize {
        self.children().map(Subtree::widest).fold(self.tokens.len(), usize::max)
    }

    fn depth(&self) -> usize {
        1 + self.children().map(Subtree::depth).max().unwrap_or(0)
    }

    /// The longer prefix that `tokens` lead to.
    fn at(&self, tokens: &[u32]) -> &Subtree {
        tokens.iter().fold(self, |prefix, &token| match &prefix.tokens[token as usize].1 {
            Next::More(child) => child,
            Next::End(_) => unreachable!("no token follows EOS"),
        })
    }

    /// The MDP for the exact oracle.
    pub(super) fn build(&self) -> anyhow::Result<(Tree, Tabular)> {
        let width = self.widest();
        let names = (0..width).map(letter).chain(["EOS".to_owned()]);
        // The token with index i is the letter i; the one that ends the response is EOS.
        let spell = |(i, (_, next)): (usize, &(f64, Next))| match next {
            Next::End(_) => width as u32,
            Next::More(_) => i as u32,
        };
        let reward = |(_, next): &(f64, Next)| match next {
            Next::End(reward) => Some(*reward),
            Next::More(_) => None,
        };
        let tree = Rules::new(names, self.depth()).build(
            |tokens| self.at(tokens).tokens.iter().enumerate().map(spell).collect(),
            |tokens, _| {
                let before = self.at(&tokens[..tokens.len() - 1]);
                before.tokens.iter().find_map(reward).unwrap_or(0.0)
            },
        )?;
        let policy = Tabular::from_weights(&tree, |node, edge| {
            self.at(&tree.prefix(node)).tokens[edge - tree.edges_of(node).start].0
        });
        Ok((tree, policy))
    }
}

fn letter(i: usize) -> String {
    char::from(b'A' + i as u8).to_string()
}

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
    /// The accepted states, from the MDP that was found on.
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
        let drawn = Subtree::below(&Oracle::new(&tree, &family.initial(&tree)), 0);
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

/// The shrunk MDP by the oracle, and the excess of smaller ones.
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
