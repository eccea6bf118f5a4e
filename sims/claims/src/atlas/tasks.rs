//! The tasks of the atlas.

use crate::training::Task;
use grpo_lambda_mdp::zoo::{self, RandomRewards};

/// The tasks. Trees of the zoo that are large at their defaults take part with a shorter horizon, so that exact sums stay feasible; the long version
/// adds those defaults and more random trees. Not among them: `lemma_counterexample`, which is one choice between two tokens.
pub(super) fn tasks(full: bool) -> anyhow::Result<Vec<Task>> {
    let fork_long = zoo::Fork {
        branches: vec![
            zoo::Branch::new("short", 2, 0.8, 0.1),
            zoo::Branch::new("long", 50, 0.9, 0.2),
            zoo::Branch::new("astray", 10, 0.0, 0.7),
        ],
    };
    let hazard = zoo::EosHazard { horizon: 5, ..zoo::EosHazard::default() };
    let dependent = zoo::EosHazardDependent { horizon: 5, ..zoo::EosHazardDependent::default() };
    let noisy = zoo::Noisy { flip: 0.3, ..zoo::Noisy::default() };
    // Each step more is a reward more, and sums over the rewards of a group of 16 grow with the power of their number.
    let partial = zoo::Chain { partial: true, steps: 4, ..zoo::Chain::default() };
    let random = |seed| zoo::Random { seed, rewards: RandomRewards::Probabilities, ..zoo::Random::default() };
    let mut tasks = vec![
        Task::new("pivot", "one early token decides", &zoo::Pivot::default())?,
        Task::new("lucky_guess", "a flawed step may be lucky", &zoo::LuckyGuess::default())?,
        Task::new("delayed_format", "an early tag matters at the end", &zoo::DelayedFormat::default())?,
        Task::new("deceptive", "good on average, worse at best", &zoo::Deceptive::default())?,
        Task::new("parity", "only the last bit counts", &zoo::Parity { bits: 5 })?,
        Task::new("needle", "one rewarded response", &zoo::Needle { symbols: 3, length: 3 })?,
        Task::new("noisy", "30 % of grades are wrong", &noisy)?,
        Task::new("carry_add", "a sum, digit by digit", &zoo::CarryAdd::default())?,
        Task::new("copy", "errors can be taken back", &zoo::CopyString::default())?,
        Task::new("distractor_length", "filler changes the length only", &zoo::DistractorLength::default())?,
        Task::new("eos_hazard", "EOS legal everywhere", &hazard)?,
        Task::new("eos_hazard_dependent", "EOS follows one symbol", &dependent)?,
        Task::new("chain", "the first error ends it", &zoo::Chain::default())?,
        Task::new("chain_partial", "share of right steps (real rewards)", &partial)?,
        Task::new("forking_chain", "forks along a chain", &zoo::ForkingChain::default())?,
        Task::new("fork", "the short answer is better", &zoo::Fork::default())?,
        Task::new("fork_long", "the long answer is better", &fork_long)?,
        Task::new("random", "random tree, noisy grades", &random(zoo::Random::default().seed))?,
    ];
    if full {
        tasks.push(Task::new("random_1", "random tree, noisy grades", &random(101))?);
        tasks.push(Task::new("random_2", "random tree, noisy grades", &random(102))?);
        tasks.push(Task::new("random_3", "random tree, noisy grades", &random(103))?);
        let real = zoo::Random { rewards: RandomRewards::Real, ..random(104) };
        tasks.push(Task::new("random_real", "random tree, real rewards", &real)?);
        tasks.push(Task::new("full", "every token legal everywhere", &zoo::Full::default())?);
        tasks.push(Task::new("needle_243", "one rewarded response of 243", &zoo::Needle::default())?);
        tasks.push(Task::new("eos_hazard_511", "EOS legal everywhere, long", &zoo::EosHazard::default())?);
        let long = zoo::EosHazardDependent::default();
        tasks.push(Task::new("eos_hazard_dependent_511", "EOS follows one symbol, long", &long)?);
    }
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::distinct;
    use grpo_lambda_mdp::Oracle;

    #[test]
    fn the_tasks_have_something_to_learn_and_names_of_their_own() {
        for full in [false, true] {
            let tasks = tasks(full).unwrap();
            let names: Vec<_> = tasks.iter().map(|t| t.name.as_str()).collect();
            assert_eq!(distinct(&names).len(), names.len());
            for t in &tasks {
                assert!(t.start_j < t.best - 0.05, "{}: J = {}, J* = {}", t.name, t.start_j, t.best);
                let gradient = Oracle::new(&t.tree, &t.start).grad_j();
                assert!(gradient.iter().any(|g| g.abs() > 1e-4), "{}", t.name);
                assert!(t.tree.leaf_count() <= 1200 && t.longest <= 50, "{}", t.name);
            }
            assert!(tasks.iter().filter(|t| t.equal_lengths()).count() >= 5);
            assert!(tasks.iter().filter(|t| !t.equal_lengths()).count() >= 8);
        }
    }

    #[test]
    fn every_family_of_the_zoo_takes_part_but_the_one_named() {
        let tasks = tasks(true).unwrap();
        for entry in zoo::all() {
            let there = tasks.iter().any(|t| t.name.starts_with(entry.name));
            assert_eq!(there, entry.name != "lemma_counterexample", "{}", entry.name);
        }
    }
}
