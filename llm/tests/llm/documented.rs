//! Every command of `llm-train` that README.md and docs/ print, run in the order in which a page prints them, in a scratch folder.

use std::path::Path;

use crate::common::{checkpoint, shape};
use crate::documents::{Plan, page, run_all};

/// A model and a run at which a command that trains takes a second.
const SHAPE: &str = "model.hidden=32 model.layers=1 model.heads=2 model.kv_heads=1 model.intermediate=64";
const SHORT: &str = "sft.steps=2 sft.batch=4 rl.prompts_per_step=2 rl.group_size=2 rl.steps=2 rl.max_new_tokens=8 eval.n=4 \
                     eval.every=2 checkpoint.every=2";

/// A command with small settings in place of those it does not give; the shape of a checkpoint is its own.
fn small(command: &str) -> String {
    let given = |key: &str| command.split_whitespace().any(|word| word.split('=').next() == Some(key));
    let shape = if command.contains("model.checkpoint=") { "" } else { SHAPE };
    let settings = shape.split_whitespace().chain(SHORT.split_whitespace());
    let more: Vec<&str> = settings.filter(|s| !s.split('=').next().is_some_and(&given)).collect();
    format!("{command} {}", more.join(" "))
}

/// What becomes of a command.
fn plan(command: &str) -> Plan {
    if command.contains("gpu-check") || command.contains("device=cuda") || command.contains("--device cuda") {
        return Plan::Not("needs a card");
    }
    if command.contains("device=metal") {
        return Plan::Not("needs a Mac; llm/tests/llm/candle.rs has the same on the CPU");
    }
    if command.contains("rollout.url=") || command.contains("--url") {
        return Plan::Not("needs a server next to it, as llm/tests/llm/engines.rs has one");
    }
    if command.contains("--dry-run") || command.contains("--print-config") {
        return Plan::AsPrinted;
    }
    match command.split_whitespace().nth(1) {
        None | Some("train" | "sft") => Plan::Scaled(small(command)),
        Some("compare") if command.contains("--methods") => {
            let fewer = command.replace("--seeds 7", "--seeds 2");
            assert_ne!(fewer, command, "so many seeds take long");
            Plan::Scaled(small(&fewer))
        }
        Some("reproduce") => Plan::Scaled(small(&format!(
            "{command} --only dataset=gsm8k,style=both,lambda=0.99,update=trace"
        ))),
        Some("eval") if !command.contains("--limit") => Plan::Scaled(format!("{command} --limit 4")),
        _ => Plan::AsPrinted,
    }
}

/// What the pages take as given: a checkpoint `$MODEL`, twenty problems in `my.jsonl`, the five benchmarks in `benchmarks`.
fn furnish(folder: &Path) -> String {
    let at = |name: &str| folder.join(name);
    checkpoint(&at("model"), &shape(), usize::MAX);
    let row = |i: usize| format!("{{\"question\":\"{i}+{i}=?\",\"answer\":\"#### {}\"}}\n", 2 * i);
    let rows: String = (0..20).map(row).collect();
    std::fs::write(at("my.jsonl"), &rows).unwrap();
    std::fs::create_dir(at("benchmarks")).unwrap();
    for name in ["aime24", "amc", "math500", "minerva", "olympiad"] {
        std::fs::write(at("benchmarks").join(format!("{name}.jsonl")), row(3) + &row(4)).unwrap();
    }
    at("model").to_str().unwrap().to_owned()
}

#[test]
fn every_printed_command_runs_in_its_order() {
    run_all("llm-train", env!("CARGO_BIN_EXE_llm-train-tested"), plan, furnish);
}

/// `.ci/weekly release` makes this run and compares its output with the recorded one.
#[test]
fn the_front_page_shows_the_result_of_the_default_run() {
    page::hold_outputs("llm-train", |command| {
        assert_eq!(command, "llm-train");
        include_str!("../../results/tiny.txt").to_owned()
    });
}

#[test]
fn the_page_of_bounds_has_those_of_the_code() {
    page::hold("promises.md", "llm-train", &page::bounds(&grpo_lambda_trainer::bounded::limits::table()));
}
