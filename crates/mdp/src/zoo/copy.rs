//! [`CopyString`]: repeat a string, with or without a way back from an error.

use super::{Family, at_least, knob, numbered, open_probability};
use crate::{Rules, Tabular, Tree, TreeError};

/// Write `target` symbol by symbol, then EOS. `del` takes back the last symbol; a response has room for `detours` of them, each an error
/// and its `del`, or a `del` and the symbol again. Rewarded iff what stands there at EOS is the target.
///
/// EOS is legal when as many symbols stand there as the target has, a symbol when fewer do, `del` when one does (and `detours > 0`); where no
/// symbol is left to write and none may be taken back the response is cut at its horizon, unrewarded.
///
/// Shows: an error that is recoverable, at the price of length: the value after it is lower, not 0, and the longer of two right responses is
/// no better. With `detours = 0` errors are final. The initial policy takes the right next step (go on, take an error back, stop) with probability `skill`, the
/// others share the rest. `J* = 1`; with one detour and `n = |target| + 1` steps `J = skill^n (1 + n skill (1 - skill))`, without `skill^|target|`.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyString {
    /// The string, at least one symbol, each below `symbols`.
    pub target: Vec<u32>,
    /// Number of different symbols, at least 2.
    pub symbols: usize,
    /// Number of errors that can be taken back.
    pub detours: usize,
    /// Initial probability of the right next step, in `(0,1)`.
    pub skill: f64,
}

impl Default for CopyString {
    fn default() -> CopyString {
        CopyString { target: vec![0, 1, 1], symbols: 2, detours: 1, skill: 0.6 }
    }
}

impl CopyString {
    fn del(&self) -> u32 {
        self.symbols as u32
    }

    fn eos(&self) -> u32 {
        self.symbols as u32 + 1
    }

    /// The text there after these tokens.
    fn written(&self, tokens: &[u32]) -> Vec<u32> {
        let mut written = Vec::new();
        for &token in tokens {
            if token == self.del() {
                written.pop();
            } else if token != self.eos() {
                written.push(token);
            }
        }
        written
    }

    /// The step that leads to the target.
    fn right(&self, tokens: &[u32]) -> u32 {
        let written = self.written(tokens);
        if !self.target.starts_with(&written) && self.detours > 0 {
            return self.del();
        }
        self.target.get(written.len()).copied().unwrap_or(self.eos())
    }
}

impl Family for CopyString {
    const NAME: &'static str = "copy";
    const ABOUT: &'static str = "repeat a string; an error can be taken back, at the price of length";

    fn tree(&self) -> Result<Tree, TreeError> {
        at_least(Self::NAME, "symbols", self.symbols, 2, "at least 2")?;
        at_least(Self::NAME, "target", self.target.len(), 1, "at least one symbol long")?;
        for &symbol in &self.target {
            knob((symbol as usize) < self.symbols, Self::NAME, "target", symbol, "below symbols")?;
        }
        open_probability(Self::NAME, "skill", self.skill)?;
        let names = numbered("s", self.symbols).chain(["del".into(), "EOS".into()]);
        Rules::new(names, self.target.len() + 1 + 2 * self.detours).build(
            |prefix| {
                let written = self.written(prefix).len();
                let mut legal: Vec<u32> = Vec::new();
                if written < self.target.len() {
                    legal.extend(0..self.del());
                }
                if written > 0 && self.detours > 0 {
                    legal.push(self.del());
                }
                if written == self.target.len() {
                    legal.push(self.eos());
                }
                legal
            },
            |response, cut| f64::from(!cut && self.written(response) == self.target),
        )
    }

    fn initial(&self, tree: &Tree) -> Tabular {
        Tabular::from_weights(tree, |node, edge| {
            let (right, choices) = (self.right(&tree.prefix(node)), tree.edges_of(node).len());
            match tree.token(edge) {
                _ if choices == 1 => 1.0,
                token if token == right => self.skill,
                _ => (1.0 - self.skill) / (choices - 1) as f64,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Optimal, Oracle, Target};

    fn j(family: &CopyString) -> f64 {
        let tree = family.tree().unwrap();
        assert_eq!(Optimal::new(&tree).j, 1.0);
        Oracle::new(&tree, &family.initial(&tree)).j
    }

    #[test]
    fn j_by_hand() {
        // One detour: a detour at each of the four steps, an error and its `del` or a `del` and the symbol again, has (1-p) p in all.
        let one = CopyString::default();
        assert!((j(&one) - 0.6f64.powi(4) * (1.0 + 4.0 * 0.24)).abs() < 1e-15);
        let final_errors = CopyString { detours: 0, ..CopyString::default() };
        assert!((j(&final_errors) - 0.6f64.powi(3)).abs() < 1e-15);
        let two = CopyString { target: vec![1, 0], skill: 0.7, ..CopyString::default() };
        assert!((j(&two) - 0.7f64.powi(3) * (1.0 + 3.0 * 0.21)).abs() < 1e-15);
    }

    #[test]
    fn an_error_is_recoverable_and_costs_two_tokens() {
        let family = CopyString::default();
        let tree = family.tree().unwrap();
        let (del, eos) = (family.del(), family.eos());
        for (tokens, reward) in [
            (vec![0, 1, 1, eos], 1.0),
            (vec![1, del, 0, 1, 1, eos], 1.0),
            (vec![0, 1, 1, del, 1, eos], 1.0),
            (vec![0, 1, 0, eos], 0.0),
        ] {
            let Some(Target::Leaf(leaf)) = tree.find(&tokens) else { panic!("{tokens:?} is a response") };
            assert_eq!(tree.reward(leaf), reward, "{tokens:?}");
        }
        let oracle = Oracle::new(&tree, &family.initial(&tree));
        let Some(Target::Node(error)) = tree.find(&[1]) else { panic!("a prefix") };
        assert!((oracle.v[error] - 0.6f64.powi(5)).abs() < 1e-15, "no room for a second error");
    }
}
