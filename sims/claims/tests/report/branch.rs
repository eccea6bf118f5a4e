//! The protocol of branching methods, before its runs: it can be read, no recorded run has its seeds, and the laboratory's prediction in it is
//! that of the committed tables.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use crate::{committed, root};
use grpo_lambda::methods;
use grpo_lambda_stats::least_detectable_mean;
use grpo_lambda_stats::table::Table;
use grpo_lambda_trials::Study;
use std::collections::BTreeSet;

fn protocol() -> Study<toml::Table> {
    Study::read(&std::fs::read_to_string(root().join("paper/protocols/branch.toml")).unwrap()).unwrap()
}

#[test]
fn it_names_methods_and_seeds_that_no_other_protocol_has() {
    let study = protocol();
    for m in &study.methods {
        methods::parse(&m.method, &m.settings).unwrap_or_else(|e| panic!("{}: {e}", m.name));
    }
    assert_eq!((study.methods.len(), study.comparisons.len()), (8, 8));
    let own: BTreeSet<i64> =
        study.seeds.selection.iter().chain(&study.seeds.evaluation).map(|s| *s as i64).collect();
    assert_eq!((study.seeds.selection.len(), study.seeds.evaluation.len(), own.len()), (4, 12, 16));
    let mut others = 0;
    for entry in std::fs::read_dir(root().join("paper/protocols")).unwrap().map(Result::unwrap) {
        let other: toml::Table = std::fs::read_to_string(entry.path()).unwrap().parse().unwrap();
        let seeds = other.get("seeds").and_then(toml::Value::as_table).unwrap_or(&other);
        let lists = ["selection", "evaluation"].into_iter().filter_map(|key| seeds.get(key)?.as_array());
        let seeds: BTreeSet<i64> = lists.flatten().filter_map(toml::Value::as_integer).collect();
        if entry.file_name() != "branch.toml" {
            assert!(!seeds.is_empty() && seeds.is_disjoint(&own), "{:?}", entry.file_name());
            others += 1;
        }
    }
    assert!(others >= 8);
    let detected = least_detectable_mean(12, 1.0, 0.05, 0.8);
    assert!(
        study.endpoint["power"].as_str().unwrap().contains(&format!("{detected:.2} standard deviations"))
    );
}

#[test]
fn the_laboratory_s_noise_per_token_is_that_of_the_committed_tables() {
    let (updates, trees) = (committed("atlas_updates.csv"), committed("sampler_trees.csv"));
    let number = |table: &Table, keys: &[(&str, &str)], column: &str| {
        let is = |(key, value): &(&str, &str), row: usize| {
            table.rows[row][table.column(key).unwrap()].format(12) == *value
        };
        let row = (0..table.rows.len()).find(|row| keys.iter().all(|key| is(key, *row)));
        table.rows[row.unwrap_or_else(|| panic!("{keys:?}"))][table.column(column).unwrap()].number().unwrap()
    };
    let study = protocol();
    let entries = study.setup["noise_per_token"].as_array().unwrap();
    for entry in entries.iter().map(|entry| entry.as_table().unwrap()) {
        let text = |key: &str| entry.get(key).map(|value| value.as_str().unwrap());
        let name = text("entry").unwrap();
        for (task, said) in entry.iter().filter_map(|(key, value)| Some((key, value.as_float()?))) {
            let noise = |name| 1.0 / number(&updates, &[("task", task), ("method", name)], "signal_to_noise");
            let expected = match text("own_tree") {
                Some(sampling) => {
                    let keys = [("task", task.as_str()), ("method", name), ("sampling", sampling)];
                    number(&trees, &keys, "noise_over_rloo") * number(&trees, &keys, "tokens_over_rloo")
                }
                None => {
                    let tokens = if name.starts_with("VinePPO") {
                        number(&updates, &[("task", task), ("method", name)], "passes")
                    } else {
                        1.0
                    };
                    tokens * noise(name) / noise("RLOO")
                }
            };
            assert!((said - expected).abs() < 0.00501, "{name} on {task}: {said}, not {expected:.3}");
        }
    }
    let predicted: BTreeSet<&str> = entries.iter().map(|e| e["method"].as_str().unwrap()).collect();
    assert_eq!(predicted, study.methods.iter().map(|m| m.name.as_str()).collect());
}
