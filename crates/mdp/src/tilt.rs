//! A task at another success rate.

use super::oracle::Oracle;
use super::policy::Tabular;
use super::tree::{RewardKind, Tree};

impl Oracle<'_> {
    /// The policy whose responses are those of this one with the odds of success changed so that `J` is `rate`.
    ///
    /// Right responses keep their probabilities relative to each other, and so do wrong ones:
    ///
    /// ```text
    /// π'(a|s) = π(a|s) (1 + (w - 1) Q(s,a)) / (1 + (w - 1) V(s)),      w = rate (1 - J) / ((1 - rate) J)
    /// ```
    /// None where that is no policy: rewards that are not binary or are drawn (then a response is not right or wrong by itself), a
    /// discount, a rate outside `(0, 1)`, or a policy that always succeeds or never does.
    ///
    /// ```
    /// use grpo_lambda_mdp::{Oracle, zoo, zoo::Family};
    /// let chain = zoo::Chain::default();
    /// let tree = chain.tree()?;
    /// let policy = Oracle::new(&tree, &chain.initial(&tree)).at_success_rate(0.5).expect("a binary task");
    /// assert!((Oracle::new(&tree, &policy).j - 0.5).abs() < 1e-12);
    /// # Ok::<(), grpo_lambda_mdp::TreeError>(())
    /// ```
    pub fn at_success_rate(&self, rate: f64) -> Option<Tabular> {
        let within = |p: f64| p > 0.0 && p < 1.0;
        if !(has_success_rate(self.tree) && within(rate) && within(self.j)) {
            return None;
        }
        let odds = rate / (1.0 - rate) * (1.0 - self.j) / self.j;
        let weight = |_, e: usize| self.probs[e] * (1.0 + (odds - 1.0) * self.q[e]);
        Some(Tabular::from_weights(self.tree, weight))
    }
}

/// True if every response of a task is right or wrong, undiscounted: then its policies have success rates to choose from.
pub fn has_success_rate(tree: &Tree) -> bool {
    let decided = |y| matches!(tree.reward(y), 0.0 | 1.0);
    tree.reward_kind() == RewardKind::Binary && tree.gamma() == 1.0 && tree.leaves().all(decided)
}

#[cfg(test)]
mod tests {
    use super::super::zoo;
    use super::*;

    /// The definition by responses: `P'(y, r) ∝ P(y, r) w^r`.
    #[test]
    fn responses_keep_their_relative_probabilities() {
        for named in zoo::all() {
            let tree = (named.build)();
            let policy = (named.initial)(&tree);
            let oracle = Oracle::new(&tree, &policy);
            for rate in [0.1, 0.5, 0.97] {
                let Some(tilted) = oracle.at_success_rate(rate) else {
                    assert!(!has_success_rate(&tree), "{}", named.name);
                    continue;
                };
                let there = Oracle::new(&tree, &tilted);
                assert!((there.j - rate).abs() < 1e-9, "{}: {} for {rate}", named.name, there.j);
                for leaf in tree.leaves() {
                    let right = tree.reward(leaf);
                    let share = right * rate / oracle.j + (1.0 - right) * (1.0 - rate) / (1.0 - oracle.j);
                    let gap = there.leaf_prob(leaf) - oracle.leaf_prob(leaf) * share;
                    assert!(gap.abs() < 1e-9, "{} at {rate}: {gap}", named.name);
                }
            }
        }
    }

    #[test]
    fn what_is_no_success_rate_is_none() {
        let tree = (zoo::find("pivot").expect("known").build)();
        let oracle = Oracle::new(&tree, &Tabular::uniform(&tree));
        for rate in [0.0, 1.0, -0.5, 1.5, f64::NAN] {
            assert!(oracle.at_success_rate(rate).is_none(), "{rate}");
        }
        let partial = (zoo::find("chain_partial").expect("known").build)();
        assert!(Oracle::new(&partial, &Tabular::uniform(&partial)).at_success_rate(0.5).is_none());
    }
}
