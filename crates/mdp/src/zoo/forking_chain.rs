//! [`ForkingChain`]: forks along a chain, into branches of different length and success.

use super::{Branch, Family, at_least, knob, open_probability, probability};
use crate::{Rules, Tabular, Tree, TreeError};

/// A chain of `forks`. At each, `on` leads to the next one, a branch leads to the end of the response: its first token, then `step` tokens without any
/// choice, EOS. Leaving at fork `k` (from 0) of `n` by a branch is rewarded with probability `success (k+1)/n`; at the last fork there is no `on`.
///
/// Shows: several decisions at different depths whose branches differ in length and success, so that short is not bad, nor long good: patience pays
/// at the forks, the short branch is the best. `J*` is the greatest `success`. With `o` the initial probability of `on` and
/// `s = Σ initial * success` over branches whose `initial` sum to `1 - o`,
///
/// ```text
/// J = s Σ_{k<n-1} o^k (k+1)/n  +  o^(n-1) s / (1 - o)
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ForkingChain {
    /// Number of forks, at least 1.
    pub forks: usize,
    /// The branches of every fork, at least 1, with different names, none called `on`; `initial` is relative to the other branches.
    pub branches: Vec<Branch>,
    /// Initial probability of `on`, in `(0,1)`.
    pub on: f64,
}

impl Default for ForkingChain {
    fn default() -> ForkingChain {
        let branches = vec![
            Branch::new("sharp", 2, 0.9, 1.0),
            Branch::new("slow", 8, 0.6, 1.0),
            Branch::new("astray", 4, 0.0, 1.0),
        ];
        ForkingChain { forks: 4, branches, on: 0.4 }
    }
}

impl Family for ForkingChain {
    const NAME: &'static str = "forking_chain";
    const ABOUT: &'static str = "forks along a chain, branches differ in length and success";

    fn tree(&self) -> Result<Tree, TreeError> {
        let (forks, branches) = (self.forks, &self.branches);
        at_least(Self::NAME, "forks", forks, 1, "at least 1")?;
        at_least(Self::NAME, "branches", branches.len(), 1, "at least 1")?;
        open_probability(Self::NAME, "on", self.on)?;
        for branch in branches {
            at_least(Self::NAME, "length", branch.length, 2, "at least 2")?;
            probability(Self::NAME, "success", branch.success)?;
            let positive = branch.initial > 0.0 && branch.initial.is_finite();
            knob(positive, Self::NAME, "initial", branch.initial, "positive")?;
        }
        let on = branches.len() as u32;
        let (step, eos) = (on + 1, on + 2);
        let names = branches.iter().map(|branch| branch.name.clone());
        let names = names.chain(["on".into(), "step".into(), "EOS".into()]);
        let longest = branches.iter().map(|branch| branch.length).max().unwrap_or(0);
        // Where a response leaves the chain, and by which branch.
        let leaves =
            |tokens: &[u32]| tokens.iter().position(|&t| t < on).map(|k| (k, &branches[tokens[k] as usize]));
        Rules::new(names, forks - 1 + longest).build(
            |prefix| match leaves(prefix) {
                Some((k, branch)) if prefix.len() - k + 1 == branch.length => vec![eos],
                Some(_) => vec![step],
                None if prefix.len() + 1 == forks => (0..on).collect(),
                None => (0..=on).collect(),
            },
            |response, _| {
                leaves(response).map_or(0.0, |(k, branch)| branch.success * (k + 1) as f64 / forks as f64)
            },
        )
    }

    fn initial(&self, tree: &Tree) -> Tabular {
        let total: f64 = self.branches.iter().map(|branch| branch.initial).sum();
        Tabular::from_weights(tree, |_, edge| match self.branches.get(tree.token(edge) as usize) {
            Some(branch) => (1.0 - self.on) * branch.initial / total,
            None if tree.token_name(edge) == "on" => self.on,
            None => 1.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Oracle, Target};

    #[test]
    fn patience_pays_and_the_short_branch_is_the_best() {
        let family = ForkingChain::default();
        let tree = family.tree().unwrap();
        let oracle = Oracle::new(&tree, &family.initial(&tree));
        let mut node = 0;
        let mut before = 0.0;
        loop {
            let q: Vec<f64> = tree.edges_of(node).map(|e| oracle.q[e]).collect();
            assert!(q[0] > q[1] && q[1] > q[2] && q[0] > before, "{q:?}");
            before = q[0];
            let Some(Target::Node(next)) = tree.edge(node, 3).map(|e| tree.target(e)) else { break };
            node = next;
        }
        assert_eq!((tree.depth(node), before), (3, 0.9));
        // `on on sharp EOS` has four tokens, `slow` at once eight.
        let lengths: Vec<usize> = tree.leaves().map(|l| tree.leaf_len(l)).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&2), Some(&11)));
    }
}
