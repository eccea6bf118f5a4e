//! Every command of `sim` that README.md and docs/ print, run in the order in which a page prints them, in a scratch folder.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use crate::documents::{Plan, page, run_all};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The fate of a command.
fn plan(command: &str) -> Plan {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.get(1) {
        Some(&"atlas") => Plan::Scaled(command.replace("atlas", "atlas --list")),
        _ if command.contains("--full") => Plan::Scaled(command.replace("--full", "--list")),
        None => Plan::Scaled(format!("{} theorem_1", words[0])),
        _ => Plan::AsPrinted,
    }
}

#[test]
fn every_printed_command_runs_in_its_order() {
    for name in ["sim", "grpo-sim"] {
        run_all(name, env!("CARGO_BIN_EXE_grpo-sim"), plan, |_| String::new());
    }
}

#[test]
fn the_page_of_bounds_has_those_of_the_code() {
    page::hold("promises.md", "sim", &page::bounds(&grpo_lambda_tools::input::table()));
}

/// The repository, where README's commands run.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn the_front_page_counts_the_methods() {
    let page = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(page.contains(&format!("{} objectives", grpo_lambda::methods::REGISTRY.len())));
}

#[test]
fn the_front_page_shows_what_the_program_prints() {
    page::hold_outputs("grpo-sim", |command| {
        let out = tempfile::tempdir().unwrap();
        let mut words: Vec<&str> = command.split(' ').skip(1).collect();
        if words[0] == "mdp" {
            words.extend(["--out", out.path().to_str().unwrap()]);
        }
        let mut program = Command::new(env!("CARGO_BIN_EXE_grpo-sim"));
        let done = program.args(words).current_dir(root()).output().unwrap();
        assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    });
}

/// A step that TRL's own trainer took: the rows of each prompt, and the loss that it reported.
#[test]
fn the_recorded_step_of_the_examples_is_that_of_the_fixture() {
    let text = std::fs::read_to_string(root().join("llm/tests/fixtures/trl_step.json")).unwrap();
    let recorded: Value = serde_json::from_str(&text).unwrap();
    let case = &recorded["cases"]["dr_grpo"];
    let size = recorded["rewards"].as_array().unwrap().len() / recorded["prompts"].as_array().unwrap().len();
    let theirs = json!({"loss": case["loss"]}).to_string() + "\n";
    let mut groups = String::new();
    for (i, rewards) in recorded["rewards"].as_array().unwrap().chunks(size).enumerate() {
        let rows = |field: &str| &case[field].as_array().unwrap()[i * size..][..size];
        let (logps, old) = (rows("logps"), rows("old_logps"));
        groups += &(json!({"rewards": rewards, "logps": logps, "old_logps": old}).to_string() + "\n");
    }
    for (file, expected) in [("trl_step.jsonl", groups), ("trl_step.theirs.jsonl", theirs)] {
        let path = root().join("examples").join(file);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &expected).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), expected, "{file}");
    }
}
