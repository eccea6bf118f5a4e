//! Every command of `sim` that README.md and docs/ print, run in the order in which a page prints them, in a scratch folder.

use crate::documents::{Plan, help, page, run_all};

/// The fate of a command.
fn plan(command: &str) -> Plan {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.get(1) {
        Some(&"atlas") => Plan::Scaled(command.replace("atlas", "atlas --list")),
        _ if command.contains("--full") => Plan::Scaled(command.replace("--full", "--list")),
        None => Plan::Scaled("sim theorem_1".to_owned()),
        _ => Plan::AsPrinted,
    }
}

#[test]
fn every_printed_command_runs_in_its_order() {
    run_all("sim", env!("CARGO_BIN_EXE_grpo-sim"), plan, |_| String::new());
}

#[test]
fn the_page_of_commands_is_what_the_program_says() {
    page::hold("commands.md", "sim", &help("sim", env!("CARGO_BIN_EXE_grpo-sim")));
}

#[test]
fn the_page_of_limits_has_those_of_the_code() {
    page::hold("limits.md", "sim", &page::bounds(&grpo_lambda_tools::input::table()));
}
