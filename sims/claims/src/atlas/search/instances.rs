//! The policies the search looks at: the tasks of the atlas by family, each at several points of learning.

use grpo_lambda_mdp::{Oracle, Tabular};

use crate::training::task::Task;

/// Families of tasks that are held out together; every other task is a family of its own.
const KIN: [(&str, &[&str]); 5] = [
    ("fork", &["fork", "fork_long"]),
    ("chain", &["chain", "chain_partial", "forking_chain"]),
    ("eos_hazard", &["eos_hazard", "eos_hazard_dependent", "eos_hazard_511", "eos_hazard_dependent_511"]),
    ("needle", &["needle", "needle_243"]),
    ("random", &["random", "random_1", "random_2", "random_3", "random_real", "full"]),
];

/// The family of a task.
pub(super) fn family(task: &Task) -> &str {
    KIN.iter().find(|(_, members)| members.contains(&task.name.as_str())).map_or(&task.name, |(name, _)| name)
}

/// The families, in order.
pub(super) fn families(tasks: &[Task]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for task in tasks {
        if !names.iter().any(|name| name == family(task)) {
            names.push(family(task).to_owned());
        }
    }
    names
}

/// The policies at which `J` has gained nothing, a third and two thirds of what there is, along the exact gradient.
pub(super) fn stages(task: &Task) -> Vec<Tabular> {
    let gap = task.best - task.start_j;
    let mut policy = task.start.clone();
    let mut found = Vec::new();
    for _ in 0..4000 {
        let oracle = Oracle::new(&task.tree, &policy);
        let gradient = oracle.grad_j();
        let largest = gradient.iter().fold(0.0f64, |m, g| m.max(g.abs()));
        let share = 1.0 - (task.best - oracle.j) / gap;
        if share >= found.len() as f64 / 3.0 - 1e-12 {
            found.push(policy.clone());
        }
        if found.len() == 3 || largest <= 1e-9 {
            break;
        }
        policy.step(&gradient, 0.1 / largest);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atlas::tasks::tasks;

    #[test]
    fn every_task_has_three_stages_each_with_something_to_learn() {
        for task in tasks(false).unwrap() {
            let stages = stages(&task);
            assert_eq!(stages.len(), 3, "{}", task.name);
            let js: Vec<f64> = stages.iter().map(|p| Oracle::new(&task.tree, p).j).collect();
            assert!(js.windows(2).all(|w| w[0] < w[1]) && js[2] < task.best, "{}: {js:?}", task.name);
        }
    }

    #[test]
    fn kin_are_held_out_together() {
        let tasks = tasks(true).unwrap();
        let names = families(&tasks);
        assert_eq!(names.len(), 14, "{names:?}");
        for (name, members) in KIN {
            assert!(
                members.iter().all(|m| tasks.iter().any(|t| t.name == *m && family(t) == name)),
                "{name}"
            );
        }
    }
}
