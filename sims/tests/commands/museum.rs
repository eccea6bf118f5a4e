//! The museum of known bugs: every mutant still applies to the code, its test exists, and its recorded outcome is of the patch that stands in
//! the table. `tests/museum/run.py` runs them.
#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use crate::documents::page;
use grpo_lambda_stats::table::{Cell, Table};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// One bug of the table, by field.
type Entry = BTreeMap<String, String>;

/// The entries of a kind: `mutant` or `not_applicable`.
fn entries(kind: &str) -> Vec<Entry> {
    let table: BTreeMap<String, Vec<Entry>> = toml::from_str(&read("tests/museum/mutants.toml")).unwrap();
    table[kind].clone()
}

/// The digest that `digest` of `run.py` computes.
fn digest(mutant: &Entry) -> String {
    let text = [&mutant["file"], &mutant["right"], &mutant["wrong"]].map(String::as_str).join("\0");
    let step = |value: u64, byte: u8| (value ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("fnv-{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The number of a bug, as 33 of `B33-sign`.
fn number(name: &str) -> usize {
    name.trim_start_matches('B').split('-').next().unwrap().parse().unwrap()
}

/// The recorded outcome of each mutant and the digest of its patch.
fn recorded() -> BTreeMap<String, (String, String)> {
    let table = Table::from_csv(&read("paper/data/museum.csv")).unwrap();
    let [name, outcome, patch] = ["mutant", "outcome", "patch"].map(|name| table.column(name).unwrap());
    let row = |row: &Vec<Cell>| (row[name].format(4), (row[outcome].format(4), row[patch].format(4)));
    table.rows.iter().map(row).collect()
}

#[test]
fn every_mutant_still_applies_and_names_a_test_that_exists() {
    for mutant in entries("mutant") {
        let name = &mutant["name"];
        let within = mutant.get("within").unwrap_or(&mutant["right"]);
        let text = read(&mutant["file"]);
        let file = &mutant["file"];
        assert_eq!(text.matches(within.as_str()).count(), 1, "{name}: `within` must stand once in {file}");
        assert_eq!(
            within.matches(mutant["right"].as_str()).count(),
            1,
            "{name}: `right` must stand once in `within`"
        );
        let test = mutant["test"].rsplit("::").next().unwrap();
        assert!(read(&mutant["test_file"]).contains(&format!("fn {test}(")), "{name}: no test {test}");
    }
    let all: BTreeSet<usize> = ["mutant", "not_applicable"]
        .iter()
        .flat_map(|kind| entries(kind))
        .map(|e| number(&e["name"]))
        .collect();
    assert_eq!(all, (1..=41).collect());
}

#[test]
fn every_recorded_outcome_is_of_the_patch_in_the_table_and_none_survived() {
    let mut recorded = recorded();
    for mutant in entries("mutant") {
        let Some((outcome, patch)) = recorded.remove(&mutant["name"]) else { continue };
        let again = format!("{}: run tests/museum/run.py {0}", mutant["name"]);
        assert_eq!((outcome.as_str(), patch), ("killed", digest(&mutant)), "{again}");
    }
    for bug in entries("not_applicable") {
        assert_eq!(recorded.remove(&bug["name"]).map(|row| row.0).as_deref(), Some("not applicable"));
    }
    assert!(recorded.is_empty(), "rows of no mutant: {recorded:?}");
}

#[test]
fn the_page_lists_every_bug_with_the_test_that_dies_of_it() {
    let recorded = recorded();
    let outcome_of = |name: &str| recorded.get(name).map_or("not run yet", |(outcome, _)| outcome.as_str());
    let mut rows: Vec<(usize, String)> = Vec::new();
    for bug in ["mutant", "not_applicable"].iter().flat_map(|kind| entries(kind)) {
        let (name, what, reference) = (&bug["name"], &bug["bug"], &bug["reference"]);
        let (does, test, outcome) = match bug.get("does") {
            Some(does) => {
                let test = bug["test"].rsplit("::").next().unwrap();
                (does.as_str(), format!("`{}::{test}`", bug["test_file"]), outcome_of(name).to_owned())
            }
            None => ("none", "none".to_owned(), format!("not applicable: {}", bug["reason"])),
        };
        rows.push((
            number(name),
            format!("| {name} | {what} ({reference}) | {does} | {test} | {outcome} |\n"),
        ));
    }
    rows.sort_by_key(|(number, _)| *number);
    let mut table = String::from(
        "| mutant | bug | what the mutant does | test that fails | outcome |\n| --- | --- | --- | --- | --- |\n",
    );
    rows.iter().for_each(|(_, row)| table.push_str(row));
    let mutants = entries("mutant");
    let killed = mutants.iter().filter(|mutant| outcome_of(&mutant["name"]) == "killed").count();
    let (all, absent) = (mutants.len(), entries("not_applicable").len());
    let _ = writeln!(table, "\n{killed} of {all} mutants killed; {absent} cannot exist here.");
    page::hold("museum.md", "mutants", &table);
}

/// The tables of small changes that survive, and the code that each is about.
const SURVIVORS: [(&str, &str); 3] = [
    ("mutants", "the theory, its learner included"),
    ("mutants_grade", "the grader"),
    ("mutants_decoder", "optimiser, sampler, rollouts and random numbers of the decoder"),
];

#[test]
fn the_page_counts_the_small_changes_that_survive() {
    let mut text =
        "| code | result | survivors | without a reason |\n| --- | --- | ---: | ---: |\n".to_owned();
    for (file, code) in SURVIVORS {
        text += &survivors(file, code, &read(&format!("paper/data/{file}.csv")));
    }
    page::hold("museum.md", "survivors", &text);
}

fn survivors(file: &str, code: &str, text: &str) -> String {
    let head = text.lines().next().unwrap();
    let table = Table::from_csv(text).unwrap();
    let [mutant, why] = ["mutant", "why"].map(|name| table.column(name).unwrap());
    for row in &table.rows {
        let (name, why) = (row[mutant].format(4), row[why].format(4));
        let is_there = root().join(name.split(':').next().unwrap()).exists();
        assert_ne!(
            is_there,
            why.starts_with("the file is gone: "),
            "{name}: no such file, or it is there again"
        );
    }
    let unexplained = table.rows.iter().filter(|row| row[why].format(4).is_empty()).count();
    // `COMMAND: N mutants, M killed; not run: ..`
    let (before, after) = head.rsplit_once("; not run: ").unwrap();
    let (_, killed) = before.rsplit_once(": ").unwrap();
    let survived = table.rows.len();
    format!(
        "| [{code}](../paper/data/{file}.csv) | {killed}; not run: {after} | {survived} | {unexplained} |\n"
    )
}
