//! The policies the search looks at: families of MDPs, each at several points of learning.

use grpo_lambda::mdp::zoo::{
    Branch, Chain, Deceptive, EosHazard, EosHazardDependent, Family, Fork, LuckyGuess, Needle, Noisy, Parity,
    Pivot, Random, RandomRewards,
};
use grpo_lambda::mdp::{Optimal, Oracle, Tabular, Tree};

/// An MDP of a family, with the policy learning starts from.
pub struct Task {
    /// The family, which is held out as a whole.
    pub family: &'static str,
    /// Its name.
    pub name: String,
    /// The MDP.
    pub tree: Tree,
    /// The initial policy.
    pub start: Tabular,
    /// `J*`.
    pub best: f64,
}

impl Task {
    fn new(family: &'static str, name: &str, mdp: &impl Family) -> anyhow::Result<Task> {
        let tree = mdp.tree()?;
        let start = mdp.initial(&tree);
        let best = Optimal::new(&tree).j;
        Ok(Task { family, name: name.to_owned(), tree, start, best })
    }

    fn from(self, weight: impl Fn(&str) -> f64) -> Task {
        let start = Tabular::from_weights(&self.tree, |_, e| weight(self.tree.token_name(e)));
        Task { start, ..self }
    }

    /// The policies at which `J` has gained nothing, a third and two thirds of what there is, along the exact gradient. Those without a
    /// gradient are left out.
    pub fn stages(&self) -> Vec<Tabular> {
        let gap = self.best - Oracle::new(&self.tree, &self.start).j;
        let mut policy = self.start.clone();
        let mut found = Vec::new();
        for step in 0..4000 {
            let oracle = Oracle::new(&self.tree, &policy);
            let gradient = oracle.grad_j();
            let largest = gradient.iter().fold(0.0f64, |m, g| m.max(g.abs()));
            let share = 1.0 - (self.best - oracle.j) / gap;
            if largest > 1e-7 && share >= found.len() as f64 / 3.0 - 1e-12 {
                found.push(policy.clone());
            }
            if found.len() == 3 || largest <= 1e-7 && step > 0 {
                break;
            }
            policy.step(&gradient, 0.1 / largest.max(1e-12));
        }
        found
    }
}

/// All tasks, families together.
///
/// # Errors
/// When a knob is out of range, which a test excludes.
pub fn tasks() -> anyhow::Result<Vec<Task>> {
    let long = Fork {
        branches: vec![
            Branch::new("short", 2, 0.8, 0.1),
            Branch::new("long", 50, 0.9, 0.2),
            Branch::new("astray", 10, 0.0, 0.7),
        ],
    };
    let chain = Chain { steps: 12, ..Chain::default() };
    let partial = Chain { partial: true, ..Chain::default() };
    let right = |name: &str| if name == "right" { 3.0 } else { 1.0 };
    let hazard = EosHazard { horizon: 6, ..EosHazard::default() };
    let dependent = EosHazardDependent { horizon: 6, ..EosHazardDependent::default() };
    let mut all = vec![
        Task::new("fork", "fork", &Fork::default())?,
        Task::new("fork", "fork_long", &long)?,
        Task::new("chain", "chain", &Chain::default())?,
        Task::new("chain", "chain, 12 steps", &chain)?.from(right),
        Task::new("chain", "chain_partial", &partial)?,
        Task::new("eos_hazard", "eos_hazard", &hazard)?,
        Task::new("eos_hazard", "eos_hazard_dependent", &dependent)?,
        Task::new("lucky_guess", "lucky_guess", &LuckyGuess::default())?,
        Task::new("deceptive", "deceptive", &Deceptive::default())?,
        Task::new("noisy", "noisy", &Noisy::default())?,
        Task::new("pivot", "pivot", &Pivot::default())?,
        Task::new("needle", "needle", &Needle { symbols: 3, length: 3 })?,
    ];
    for seed in [0, 3, 7, 11] {
        let random = Random { seed, rewards: RandomRewards::Probabilities, ..Random::default() };
        all.push(Task::new("random", &format!("random {seed}"), &random)?);
    }
    let parity = Task::new("parity", "parity", &Parity { bits: 5 })?;
    let start = Tabular::random(&parity.tree, 1, 0.5);
    all.push(Task { start, ..parity });
    Ok(all)
}

/// The families, in order.
pub fn families(tasks: &[Task]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for task in tasks {
        if !names.contains(&task.family) {
            names.push(task.family);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_has_three_stages_each_with_something_to_learn() {
        for task in tasks().unwrap() {
            let stages = task.stages();
            assert_eq!(stages.len(), 3, "{}", task.name);
            let js: Vec<f64> = stages.iter().map(|p| Oracle::new(&task.tree, p).j).collect();
            assert!(js.windows(2).all(|w| w[0] < w[1]) && js[2] < task.best, "{}: {js:?}", task.name);
        }
        assert!(families(&tasks().unwrap()).len() >= 9);
    }
}
