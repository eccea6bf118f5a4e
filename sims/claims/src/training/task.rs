//! Tasks: MDPs with the policy that learning starts from.

use grpo_lambda_mdp::zoo::{self, Family, RandomRewards};
use grpo_lambda_mdp::{Optimal, Oracle, Tabular, Tree};

/// An MDP with the policy that learning starts from.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) name: String,
    /// Its point, for the reader of a figure.
    pub(crate) about: String,
    pub(crate) tree: Tree,
    /// The initial policy.
    pub(crate) start: Tabular,
    /// `J*`.
    pub(crate) best: f64,
    /// `J` of the initial policy.
    pub(crate) start_j: f64,
    /// Tokens of the shortest response.
    pub(crate) shortest: usize,
    /// Tokens of the longest response.
    pub(crate) longest: usize,
}

impl Task {
    /// A family's instance at its suggested initial policy.
    pub(crate) fn new(name: &str, about: &str, family: &impl Family) -> anyhow::Result<Task> {
        let tree = family.tree()?;
        let start = family.initial(&tree);
        Ok(Task::with_start(name, about, tree, start))
    }

    /// An MDP and a policy to start from.
    pub(crate) fn with_start(
        name: impl Into<String>,
        about: impl Into<String>,
        tree: Tree,
        start: Tabular,
    ) -> Task {
        let (best, start_j) = (Optimal::new(&tree).j, Oracle::new(&tree, &start).j);
        let lengths = || tree.leaves().map(|leaf| tree.leaf_len(leaf));
        let (shortest, longest) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
        Task { name: name.into(), about: about.into(), start, best, start_j, shortest, longest, tree }
    }

    /// True if all responses have one length.
    pub(crate) fn equal_lengths(&self) -> bool {
        self.shortest == self.longest
    }
}

/// The MDPs of `learning`, small enough (under 200 logits) that a step costs microseconds. The first six have ragged lengths.
pub(crate) fn tasks(full: bool) -> anyhow::Result<Vec<Task>> {
    let long_better = zoo::Fork {
        branches: vec![
            zoo::Branch::new("short", 2, 0.8, 0.1),
            zoo::Branch::new("long", 50, 0.9, 0.2),
            zoo::Branch::new("astray", 10, 0.0, 0.7),
        ],
    };
    let random = zoo::Random { rewards: RandomRewards::Probabilities, ..zoo::Random::default() };
    let partial = zoo::Chain { partial: true, ..zoo::Chain::default() };
    let hazard = zoo::EosHazard { horizon: 5, ..zoo::EosHazard::default() };
    let noisy = zoo::Noisy { flip: 0.3, ..zoo::Noisy::default() };
    let mut tasks = vec![
        Task::new("fork", "the short answer is better", &zoo::Fork::default())?,
        Task::new("fork_long", "the long answer is better", &long_better)?,
        Task::new("chain", "the first error ends it", &zoo::Chain::default())?,
        Task::new("chain_partial", "share of right steps", &partial)?,
        Task::new("eos_hazard", "EOS legal everywhere", &hazard)?,
        Task::new("random", "random tree, noisy grades", &random)?,
        Task::new("lucky_guess", "a flawed step may be lucky", &zoo::LuckyGuess::default())?,
        Task::new("deceptive", "good on average, worse at best", &zoo::Deceptive::default())?,
        Task::new("noisy", "30 % of grades are wrong", &noisy)?,
    ];
    if full {
        tasks.push(Task::new("pivot", "one early token decides", &zoo::Pivot::default())?);
        tasks.push(Task::new("parity", "only the last bit counts", &zoo::Parity { bits: 5 })?);
        tasks.push(Task::new("needle", "one rewarded response", &zoo::Needle { symbols: 3, length: 3 })?);
    }
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trees_are_small_and_most_have_ragged_lengths() {
        for full in [false, true] {
            let tasks = tasks(full).expect("knobs in range");
            assert!(tasks.iter().all(|t| t.tree.edge_count() <= 200 && t.start_j < 0.9 * t.best));
            assert!(tasks.iter().filter(|t| !t.equal_lengths()).count() >= 6);
        }
    }
}
