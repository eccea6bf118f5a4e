//! A counterexample to Lemma 1 found by random search, and shrunk greedily.
//!
//! The MDPs here are plain trees whose responses all end with EOS. A move is accepted if the printed bound is still violated
//! somewhere; moves that make the tree smaller come before those that make its numbers rounder.

use grpo_lambda::mdp::zoo::{Family, Random};
use grpo_lambda::mdp::{Oracle, Rules, Tabular, Target, Tree};
use grpo_lambda::table::{Table, significant};

/// What a token leads to.
#[derive(Clone, Debug, PartialEq)]
enum Next {
    /// EOS: the response ends with this reward.
    End(f64),
    /// A longer prefix.
    More(Prefix),
}

/// A prefix: its tokens with their probabilities. At most one of them is EOS.
#[derive(Clone, Debug, PartialEq)]
struct Prefix {
    tokens: Vec<(f64, Next)>,
}

/// One accepted state of the shrinker.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) step: &'static str,
    pub(super) prefixes: usize,
    pub(super) responses: usize,
    pub(super) excess: f64,
}

/// A counterexample to the printed lemma from which nothing can be taken away.
pub(super) struct Shrunk {
    root: Prefix,
    /// Prefixes and responses of the MDP found by the search.
    pub(super) start: (usize, usize),
    /// MDPs drawn until one violated the bound.
    pub(super) examined: u64,
    pub(super) steps: Vec<Step>,
    /// `V(s_0) - V(s_t)` and the bound at the worst prefix.
    pub(super) gap: f64,
    pub(super) bound: f64,
}

/// What counts as a violation: more than rounding.
const VISIBLE: f64 = 1e-9;

impl Prefix {
    fn value(&self) -> f64 {
        let of = |next: &Next| match next {
            Next::End(reward) => *reward,
            Next::More(prefix) => prefix.value(),
        };
        self.tokens.iter().map(|(p, next)| p * of(next)).sum()
    }

    fn eos(&self) -> f64 {
        self.tokens.iter().filter(|(_, next)| matches!(next, Next::End(_))).map(|(p, _)| p).sum()
    }

    fn prefixes(&self) -> usize {
        1 + self.children().map(Prefix::prefixes).sum::<usize>()
    }

    fn responses(&self) -> usize {
        let ends = self.tokens.iter().filter(|(_, next)| matches!(next, Next::End(_))).count();
        ends + self.children().map(Prefix::responses).sum::<usize>()
    }

    fn children(&self) -> impl Iterator<Item = &Prefix> {
        self.tokens
            .iter()
            .filter_map(|(_, next)| if let Next::More(prefix) = next { Some(prefix) } else { None })
    }

    /// The worst prefix of the printed lemma: `V(s_0) - V(s_t)` and `1 - Π (1 - π(EOS|s_k))`.
    fn worst(&self) -> (f64, f64) {
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
    fn moves(&self) -> Vec<(&'static str, Prefix)> {
        let mut out = Vec::new();
        self.smaller(&mut |name, moved| out.push((name, moved)));
        self.rounder(&mut |name, moved| out.push((name, moved)));
        out
    }

    fn smaller(&self, emit: &mut dyn FnMut(&'static str, Prefix)) {
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
            let only_eos = Prefix { tokens: vec![(1.0, Next::End(reward))] };
            if *self != only_eos && self.tokens.len() > 1 {
                emit("end a prefix", only_eos);
            }
        }
        self.inside(emit, Prefix::smaller);
    }

    fn rounder(&self, emit: &mut dyn FnMut(&'static str, Prefix)) {
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
        self.inside(emit, Prefix::rounder);
    }

    /// The moves of the subtrees.
    fn inside(
        &self,
        emit: &mut dyn FnMut(&'static str, Prefix),
        moves: fn(&Prefix, &mut dyn FnMut(&'static str, Prefix)),
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

    fn step(&self, step: &'static str) -> Step {
        let (gap, bound) = self.worst();
        Step { step, prefixes: self.prefixes(), responses: self.responses(), excess: gap - bound }
    }
}

/// Draws random MDPs from `seed` on until one breaks the printed lemma, then shrinks it until no move is left.
pub(super) fn search(seed: u64) -> anyhow::Result<Shrunk> {
    let mut examined = 0;
    let mut root = loop {
        // A horizon of 5 with EOS legal everywhere; what is cut at the horizon ends with EOS instead.
        let family = Random { seed: seed + examined, symbols: 3, horizon: 5, eos: 1.0, ..Random::default() };
        let tree = family.tree()?;
        let oracle = Oracle::new(&tree, &family.initial(&tree));
        let root = copy(&oracle, 0);
        examined += 1;
        let (gap, bound) = root.worst();
        if gap - bound > VISIBLE {
            break root;
        }
    };
    let start = (root.prefixes(), root.responses());
    let mut steps = vec![root.step("found")];
    let violates = |(_, moved): &(&'static str, Prefix)| {
        let (gap, bound) = moved.worst();
        gap - bound > VISIBLE
    };
    while let Some((name, moved)) = root.moves().into_iter().find(violates) {
        root = moved;
        steps.push(root.step(name));
    }
    let (gap, bound) = root.worst();
    Ok(Shrunk { root, start, examined, steps, gap, bound })
}

/// The oracle's tree as a plain tree; a token that is cut at the horizon becomes a prefix that ends at once.
fn copy(oracle: &Oracle, node: usize) -> Prefix {
    let tree = oracle.tree;
    let next = |edge| match tree.target(edge) {
        Target::Node(child) => Next::More(copy(oracle, child)),
        Target::Leaf(leaf) if tree.truncated(leaf) => {
            Next::More(Prefix { tokens: vec![(1.0, Next::End(tree.reward(leaf)))] })
        }
        Target::Leaf(leaf) => Next::End(tree.reward(leaf)),
    };
    Prefix { tokens: tree.edges_of(node).map(|e| (oracle.probs[e], next(e))).collect() }
}

/// The largest excess of the printed lemma over MDPs with a prompt and one longer prefix, on a grid: EOS at the prompt with
/// probability `p` and reward `r`, else a prefix of value `v`.
pub(super) fn largest_excess_with_two_prefixes() -> f64 {
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

impl Shrunk {
    pub(super) fn excess(&self) -> f64 {
        self.gap - self.bound
    }

    /// The tree in a line: `0.5 A(EOS→1) | 0.5 B(EOS→0)`.
    pub(super) fn describe(&self) -> String {
        describe(&self.root)
    }

    /// The same MDP for the exact oracle.
    pub(super) fn build(&self) -> anyhow::Result<(Tree, Tabular)> {
        let width = widest(&self.root);
        let names = (0..width).map(letter).chain(["EOS".to_owned()]);
        let at = |tokens: &[u32]| -> &Prefix {
            tokens.iter().fold(&self.root, |prefix, &token| match &prefix.tokens[token as usize].1 {
                Next::More(child) => child,
                Next::End(_) => unreachable!("no token follows EOS"),
            })
        };
        let end = |next: &Next| matches!(next, Next::End(_));
        // The token with index i is the letter i; the one that ends the response is EOS.
        let spell = |prefix: &Prefix| -> Vec<u32> {
            prefix
                .tokens
                .iter()
                .enumerate()
                .map(|(i, (_, n))| if end(n) { width as u32 } else { i as u32 })
                .collect()
        };
        let tree = Rules::new(names, depth(&self.root)).build(
            |tokens| spell(at(tokens)),
            |tokens, _| {
                let ends = at(&tokens[..tokens.len() - 1]).tokens.iter().find_map(|(_, n)| match n {
                    Next::End(reward) => Some(*reward),
                    Next::More(_) => None,
                });
                ends.unwrap_or(0.0)
            },
        )?;
        let policy = Tabular::from_weights(&tree, |node, edge| {
            at(&tree.prefix(node)).tokens[edge - tree.edges_of(node).start].0
        });
        Ok((tree, policy))
    }

    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(&["step", "move", "prefixes", "responses", "excess"]);
        for (i, s) in self.steps.iter().enumerate() {
            table.push(vec![i.into(), s.step.into(), s.prefixes.into(), s.responses.into(), s.excess.into()]);
        }
        table
    }
}

fn letter(i: usize) -> String {
    char::from(b'A' + i as u8).to_string()
}

fn widest(prefix: &Prefix) -> usize {
    prefix.children().map(widest).fold(prefix.tokens.len(), usize::max)
}

fn depth(prefix: &Prefix) -> usize {
    1 + prefix.children().map(depth).max().unwrap_or(0)
}

fn describe(prefix: &Prefix) -> String {
    let one = |(i, (p, next)): (usize, &(f64, Next))| {
        let what = match next {
            Next::End(reward) => format!("EOS→{}", significant(*reward, 3)),
            Next::More(child) => format!("{}({})", letter(i), describe(child)),
        };
        if *p == 1.0 { what } else { format!("{} {what}", significant(*p, 3)) }
    };
    prefix.tokens.iter().enumerate().map(one).collect::<Vec<_>>().join(" | ")
}
