//! Every command of `llm-train` that README.md and docs/ print, run in the order in which a page prints them, in a scratch folder.

use std::path::Path;

use crate::common::{checkpoint, shape};
use crate::documents::{Plan, help, page, run_all};

/// Settings at which a run takes a second, for commands that train.
const SMALL: &str = "model.hidden=32 model.layers=1 model.heads=2 model.kv_heads=1 model.intermediate=64 sft.steps=2 sft.batch=4 \
                     rl.steps=2 rl.prompts_per_step=2 rl.group_size=2 rl.max_new_tokens=8 eval.n=4 eval.every=2 checkpoint.every=2";

/// What becomes of a command.
fn plan(command: &str) -> Plan {
    let words: Vec<&str> = command.split_whitespace().collect();
    if command.contains("gpu-check") || command.contains("device=cuda") || command.contains("--device cuda") {
        return Plan::Not("needs a card");
    }
    let trains =
        matches!(words.get(1), None | Some(&("train" | "sft" | "chat"))) || command.contains("--methods");
    match words.get(1) {
        _ if command.contains("--dry-run") || command.contains("--print-config") => Plan::AsPrinted,
        Some(&"reproduce") => Plan::Scaled(format!(
            "{command} --only dataset=gsm8k,style=both,lambda=0.98,update=trace {SMALL}"
        )),
        _ if trains => {
            let given =
                |setting: &&str| words.iter().any(|w| w.split('=').next() == setting.split('=').next());
            let more: Vec<&str> = SMALL.split_whitespace().filter(|s| !given(s)).collect();
            Plan::Scaled(format!("{} {}", command.replace("--seeds 6", "--seeds 2"), more.join(" ")))
        }
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
    run_all("llm-train", env!("CARGO_BIN_EXE_llm-train"), plan, furnish);
}

#[test]
fn the_page_of_commands_is_what_the_program_says() {
    page::hold("commands.md", "llm-train", &help(env!("CARGO_BIN_EXE_llm-train")));
}
