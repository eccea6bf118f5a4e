//! Findings, tables and the figure on made-up runs.

use super::*;
use crate::experiments::common::words;

/// All runs of the protocol on a task: the methods at these levels, with a little noise; without the last `less`.
fn rows(task: &str, levels: &[(&str, &str, f64)], less: usize) -> String {
    let study: Study<toml::Table> = Study::read(PROTOCOL).expect("the protocol");
    let mut rows = Vec::new();
    for (k, method) in study.methods.iter().enumerate() {
        let own = levels.iter().find(|(on, name, _)| (*on == task || on.is_empty()) && *name == method.name);
        let level = 0.5 + own.map_or(0.0, |(_, _, level)| *level);
        let mut row = |stage: &str, seed: u64, rate: f64| {
            let level = level + 0.001 * ((seed * 7 + k as u64 * 3) % 5) as f64;
            let explained = match (method.name.as_str(), task) {
                (PPO, ADDITION) => "30000:-0.5 60000:0.4",
                (PPO, _) => "250000:-0.5 500000:0.4",
                _ => "",
            };
            rows.push(format!("{stage},{},{rate},{seed},budget,9,500000,35,0,1,0:{level:.4} 500000:{level:.4},{explained}\n", method.name));
        };
        study.seeds.selection.iter().for_each(|s| study.rates.iter().for_each(|r| row("selection", *s, *r)));
        study.seeds.evaluation.iter().for_each(|seed| row("evaluation", *seed, 0.0005));
    }
    rows.truncate(rows.len() - less);
    format!(
        "# c\nstage,method,rate,seed,ended,steps,tokens,length,start_steps,seconds,curve,explained\n{}",
        rows.concat()
    )
}

fn read(levels: &[(&str, &str, f64)], less: usize) -> Numbers {
    let [addition, chain] = [(ADDITION, 0), (CHAIN, less)].map(|(task, less)| rows(task, levels, less));
    judged(PROTOCOL, [(ADDITION, &addition), (CHAIN, &chain)]).expect("runs")
}

#[test]
fn predictions_are_read_on_their_tasks() {
    let as_predicted = [("", VINE, -0.1), (CHAIN, PPO, 0.1), (ADDITION, PPO, -0.03), ("", SPO, -0.05)];
    let n = read(&as_predicted, 0);
    let found = findings(&n);
    assert_eq!(words(&found), ["Holds when", "Holds", "Holds", "Holds", "Holds", "Holds", "Holds"]);
    assert_eq!(found[0].verdict.detail(), "shown for PPO, learned critic on chain");
    assert_eq!(tables(&n).iter().map(|(_, table)| table.rows.len()).collect::<Vec<_>>(), [16, 16, 4]);
    assert_eq!(figures(&n).len(), 1);
    // All twelve of one sign: p = 2/4096, of which Holm makes sixteen at most.
    let chain = n.pair(CHAIN, VINE, GRPO).expect("all runs");
    assert!((chain.p - 2.0 / 4096.0).abs() < 1e-12 && chain.corrected <= 16.0 * chain.p, "{chain:?}");
    // Each prediction fails by what its protocol says, and by nothing on another task.
    let with = |change: (&'static str, &'static str, f64)| {
        words(&findings(&read(&[&[change][..], &as_predicted].concat(), 0)))
    };
    assert_eq!(with((ADDITION, VINE, 0.0))[1..3], ["Fails", "Fails"], "equivalent");
    assert_eq!(with((CHAIN, PPO, 0.0))[2..5], ["Holds", "Fails", "Holds"]);
    assert_eq!(with((ADDITION, PPO, -0.2))[3..5], ["Holds", "Fails"]);
    assert_eq!(with((ADDITION, TREE_RPO, 0.1))[5..], ["Fails", "Holds"]);
    assert_eq!(with((CHAIN, TEMPO, 0.1))[5..], ["Holds", "Fails"]);
}

#[test]
fn a_budget_of_a_task_is_any_number() {
    let read = |protocol: &str| {
        judged(protocol, [(ADDITION, &rows(ADDITION, &[], 0)), (CHAIN, &rows(CHAIN, &[], 0))])
            .map(|n| n.tasks[0].budget)
    };
    assert_eq!(read(&PROTOCOL.replacen("budget = 60_000", "budget = 60_000.5", 1)).expect("runs"), 60_000.5);
    assert!(read(&PROTOCOL.replacen("budget = 60_000", "budget = true", 1)).is_err());
}

#[test]
fn nothing_is_concluded_before_every_run_of_both_tasks_is_there() {
    let fewer = read(&[], 1);
    let found = findings(&fewer);
    assert_eq!(words(&found), ["Inconclusive"]);
    assert!(found[0].verdict.detail().starts_with("447 of 448 runs"), "{}", found[0].verdict.detail());
    assert!(tables(&fewer).is_empty() && figures(&fewer).is_empty());
}
