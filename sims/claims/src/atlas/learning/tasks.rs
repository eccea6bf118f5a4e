//! On what is learned: named tasks for the ranking, random ones beside them for what explains a gain.

use crate::atlas::tasks;
use crate::training::Task;
use grpo_lambda_mdp::zoo::{self, Family, RandomRewards};
use grpo_lambda_mdp::{Oracle, RewardKind};

/// The ranked tasks: those whose rewards are 0 or 1, so that a teacher who knows the answer is defined and every competitor can learn on
/// every task.
pub(super) fn named(full: bool) -> anyhow::Result<Vec<Task>> {
    let atlas = tasks::tasks(full)?;
    Ok(atlas.into_iter().filter(|task| task.tree.reward_kind() == RewardKind::Binary).collect())
}

/// The first `n` random trees with something to learn (`J < 0.9 J*`) and lengths that differ, rewards 0 or 1 or noisy by turns.
pub(super) fn random(n: usize) -> anyhow::Result<Vec<Task>> {
    let mut found = Vec::new();
    let mut seed = 1000;
    while found.len() < n {
        let rewards = if seed % 2 == 0 { RandomRewards::Bits } else { RandomRewards::Probabilities };
        // Up to eight tokens, EOS seldom: lengths matter.
        let family = zoo::Random { seed, symbols: 2, horizon: 8, eos: 0.5, rewards, scale: 1.0 };
        let (tree, policy) = (family.tree()?, family.initial(&family.tree()?));
        let name = format!("random {seed}");
        seed += 1;
        if tree.edge_count() > 200 || tree.leaf_count() < 4 {
            continue;
        }
        let spread = {
            let oracle = Oracle::new(&tree, &policy);
            let mean = oracle.mean_length();
            oracle.expect(|leaf| (tree.leaf_len(leaf) as f64 - mean).powi(2)).sqrt()
        };
        let task = Task::with_start(name, "a random tree", tree, policy);
        if spread > 0.5 && task.start_j < 0.9 * task.best {
            found.push(task);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_names_of_their_own_and_something_to_learn() {
        let mut tasks = named(true).unwrap();
        tasks.extend(random(5).unwrap());
        let mut names: Vec<&str> = tasks.iter().map(|t| t.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), tasks.len());
        assert!(tasks.iter().all(|t| t.start_j < 0.9 * t.best && t.tree.reward_kind() == RewardKind::Binary));
    }
}
