//! [`Fork`]: the first token chooses how long the answer will be, and how good.

use super::{Family, knob, probability};
use crate::{Rules, Tabular, Tree, TreeError};

/// One way to answer in a [`Fork`].
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// Name of the first token; not `step` or `EOS`.
    pub name: String,
    /// Tokens of the response, the first and EOS included, at least 2.
    pub length: usize,
    /// `P(R=1)`, in `[0,1]`.
    pub success: f64,
    /// Initial probability relative to the other branches, positive.
    pub initial: f64,
}

impl Branch {
    /// A branch by its fields.
    pub fn new(name: &str, length: usize, success: f64, initial: f64) -> Branch {
        Branch { name: name.into(), length, success, initial }
    }
}

/// The first token chooses a branch; then `step` tokens without any choice, and EOS. One response per branch,
/// so that length 50 costs 50 nodes.
///
/// Shows: weights that depend on the length of the response turn preferences round. The default is the
/// example of a short answer (`T = 2`, `Q = 0.9`) against a long one (`T = 50`, `Q = 0.8`) at
/// `V(s_0) = 0.25`, which a third, unrewarded branch brings about: with `q = γλ = 0.99` the trace of
/// GRPO-lambda gives the choice of the short one the credit 1.29 and that of the long one 21.7. `J*` is the
/// greatest `success`; `J = Σ initial * success / Σ initial`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fork {
    /// The branches, at least 2, with different names.
    pub branches: Vec<Branch>,
}

impl Fork {
    /// Two branches, `short` and `long`, with the given lengths, success probabilities and the initial
    /// probability of `short`.
    pub fn two(lengths: [usize; 2], success: [f64; 2], initial_short: f64) -> Fork {
        let short = Branch::new("short", lengths[0], success[0], initial_short);
        let long = Branch::new("long", lengths[1], success[1], 1.0 - initial_short);
        Fork { branches: vec![short, long] }
    }
}

impl Default for Fork {
    fn default() -> Fork {
        let short = Branch::new("short", 2, 0.9, 0.1);
        let long = Branch::new("long", 50, 0.8, 0.2);
        Fork { branches: vec![short, long, Branch::new("astray", 10, 0.0, 0.7)] }
    }
}

impl Family for Fork {
    const NAME: &'static str = "fork";
    const ABOUT: &'static str = "a short good answer, a long worse one, and a wrong one";

    fn tree(&self) -> Result<Tree, TreeError> {
        let branches = &self.branches;
        knob(branches.len() >= 2, Self::NAME, "branches", branches.len(), "at least 2")?;
        for branch in branches {
            knob(branch.length >= 2, Self::NAME, "length", branch.length, "at least 2")?;
            probability(Self::NAME, "success", branch.success)?;
            let positive = branch.initial > 0.0 && branch.initial.is_finite();
            knob(positive, Self::NAME, "initial", branch.initial, "positive")?;
        }
        let (step, eos) = (branches.len() as u32, branches.len() as u32 + 1);
        let names = branches.iter().map(|branch| branch.name.clone()).chain(["step".into(), "EOS".into()]);
        let horizon = branches.iter().map(|branch| branch.length).max().unwrap_or(0);
        Rules::new(names, horizon).build(
            |prefix| match prefix.first() {
                None => (0..step).collect(),
                Some(&chosen) if prefix.len() + 1 == branches[chosen as usize].length => vec![eos],
                Some(_) => vec![step],
            },
            |response, _| branches[response[0] as usize].success,
        )
    }

    fn initial(&self, tree: &Tree) -> Tabular {
        Tabular::from_weights(tree, |node, edge| if node == 0 { self.branches[edge].initial } else { 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Oracle;

    /// `c_0 = Σ_{t<T} q^t`: what the trace of GRPO-lambda gives the first of `T` tokens.
    fn first_weight(q: f64, len: usize) -> f64 {
        (1.0 - q.powi(len as i32)) / (1.0 - q)
    }

    #[test]
    fn the_trace_prefers_the_long_worse_answer() {
        let tree = Fork::default().tree().unwrap();
        let oracle = Oracle::new(&tree, &Fork::default().initial(&tree));
        let credit = oracle.implied_credit(|leaf, reward, w| {
            w.fill((reward - oracle.j) * first_weight(0.99, tree.leaf_len(leaf)));
        });
        assert!((credit[0] - 1.29).abs() < 5e-3 && (credit[1] - 21.7).abs() < 5e-2, "{:?}", &credit[..2]);
        assert!(oracle.advantage(0) > oracle.advantage(1));
    }

    #[test]
    fn two_branches_by_their_knobs() {
        let fork = Fork::two([2, 30], [0.5, 0.25], 0.75);
        let tree = fork.tree().unwrap();
        let oracle = Oracle::new(&tree, &fork.initial(&tree));
        assert!((oracle.j - 0.4375).abs() < 1e-15);
        assert!((oracle.mean_length() - 9.0).abs() < 1e-12);
        assert_eq!((tree.leaf_count(), tree.node_count()), (2, 1 + 1 + 29));
    }
}
