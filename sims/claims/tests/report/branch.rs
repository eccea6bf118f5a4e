//! The protocol of branching methods: it can be read, no other run has its seeds, the laboratory's prediction in it is that of the committed tables, and
//! its rows are runs that it asks for; once all are there, the numbers of the claim's tables are recomputed from them.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use crate::trials::{Compared, T_OF_12, area};
use crate::{committed, root, rows};
use grpo_lambda::methods;
use grpo_lambda_stats::least_detectable_mean;
use grpo_lambda_stats::table::Table;
use grpo_lambda_trials::{End, Stage, Study, Trial};
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

/// The tasks with their runs and the tokens of one.
fn runs() -> [(&'static str, Vec<Trial>, f64); 2] {
    let own = protocol().setup["addition"]["budget"].as_integer().unwrap() as f64;
    [("addition", own), ("chain", protocol().budget)]
        .map(|(task, budget)| (task, rows(&format!("branch_{task}_runs.csv")), budget))
}

#[test]
fn its_rows_are_runs_that_it_asks_for() {
    let study = protocol();
    for (task, runs, budget) in runs() {
        let mut keys = BTreeSet::new();
        for run in &runs {
            let name = format!("{task} {} {} {}", run.method, run.rate, run.seed);
            assert!(study.methods.iter().any(|method| method.name == run.method), "{name}");
            assert!(keys.insert((run.method.clone(), run.rate.to_bits(), run.seed)), "{name}: twice");
            let exams = &run.curve.0;
            assert!(exams[0].tokens == 0.0 && exams[exams.len() - 1].tokens as u64 <= run.tokens, "{name}");
            // A run ends with the first step at or beyond the budget, and an exam comes after it.
            let ends = exams.iter().filter(|exam| exam.tokens >= budget).count();
            assert_eq!(ends, usize::from(run.ended == End::Budget), "{name}");
            // Returns that are all 0 have no variance to explain.
            let learns = exams.iter().any(|exam| exam.accuracy > 0.0);
            assert_eq!(run.explained.0.is_empty(), run.method != "ppo" || !learns, "{name}");
            let score = |rate: f64| -> f64 {
                let own =
                    |r: &&Trial| r.stage == Stage::Selection && r.method == run.method && r.rate == rate;
                runs.iter().filter(own).map(|r| area(&r.curve, budget)).sum()
            };
            let best = study.rates.iter().copied().max_by(|a, b| score(*a).total_cmp(&score(*b))).unwrap();
            let (seeds, is_rate) = match run.stage {
                Stage::Selection => (&study.seeds.selection, study.rates.contains(&run.rate)),
                Stage::Evaluation => (&study.seeds.evaluation, run.rate == best),
            };
            assert!(seeds.contains(&run.seed) && is_rate, "{name}");
        }
    }
}

#[test]
fn its_comparisons_are_those_of_the_rows() {
    let (study, runs) = (protocol(), runs());
    let of_method = |task: &str, name: &str| -> Vec<f64> {
        let (_, runs, budget) = runs.iter().find(|(own, ..)| *own == task).unwrap();
        let own = |seed: &u64| {
            let is = |r: &&Trial| r.stage == Stage::Evaluation && r.method == name && r.seed == *seed;
            runs.iter().find(is).map(|run| area(&run.curve, *budget))
        };
        study.seeds.evaluation.iter().filter_map(own).collect()
    };
    let is_complete = runs.iter().all(|(_, runs, _)| runs.len() == 224);
    let file = root().join("paper/data/branch_compared.csv");
    assert_eq!(file.exists(), is_complete, "`cargo run --bin sim -- branch --regenerate` after rows come");
    if !file.exists() {
        return;
    }
    let compared: Vec<Compared> = rows("branch_compared.csv");
    let family: Vec<f64> = compared.iter().map(|row| row.p).collect();
    assert_eq!(family.len(), 16);
    for row in compared {
        let (own, with) = (of_method(&row.task, &row.method), of_method(&row.task, &row.with));
        let values: Vec<f64> = own.iter().zip(&with).map(|(a, b)| a - b).collect();
        assert_eq!(values.len(), 12);
        row.check(&values, T_OF_12, None);
        assert_eq!(row.verdict, row.corrected_verdict(&family, study.margin), "{}", row.name());
    }
}
