//! `llm-train compare` and `llm-train plot` as a user starts them.

use crate::common::{assert_has, words};
use crate::long;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A comparison small enough for every test.
const SMALL: &str = "task.kind=addition model.hidden=32 model.layers=2 model.heads=2 model.kv_heads=1 model.intermediate=64 \
                     threads=2 sft.steps=30 rl.steps=6 rl.prompts_per_step=4 rl.group_size=4 eval.n=20 eval.every=2 \
                     checkpoint.every=2";
const METHODS: &str = "grpo,grpo_lambda:style=both,lambda=0.9";

fn llm_train(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_llm-train"));
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn compare(directory: &Path, methods: &str, extra: &[&str]) -> Command {
    let mut command = llm_train(&["compare", "--seeds", "2", "--methods", methods, "--run"]);
    command.arg(directory).args(words(SMALL)).args(extra);
    command
}

/// One line on stderr, exit code 2.
#[track_caller]
fn refused(output: &Output, expected: &str) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    let last = message.lines().last().unwrap_or_default();
    assert!(last.starts_with("llm-train: ") && last.contains(expected), "{message}");
    assert!(!message.contains("panicked"), "{message}");
}

/// A result without the line that names the command and so the directory.
fn result(directory: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(directory.join(name)).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_comparison_killed_again_and_again_ends_in_the_bytes_of_an_unbroken_one() {
    let whole = tempfile::tempdir().unwrap();
    let extra = ["--ablate-rate"];
    let done = compare(whole.path(), METHODS, &extra).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    assert_has(&text, "grpo_lambda:lambda=0.9,style=both against grpo: … is the twin of … compare.csv");

    let broken = tempfile::tempdir().unwrap();
    let mut kills = 0;
    for round in 1u64.. {
        let mut child = compare(broken.path(), METHODS, &extra).spawn().unwrap();
        // The pipes are read, or a long stderr would stop the child.
        let output = std::thread::scope(|scope| {
            let mut stderr = child.stderr.take().unwrap();
            scope.spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
            std::thread::sleep(Duration::from_millis(long::of(200, 60) * round));
            let finished = child.try_wait().unwrap();
            if finished.is_none() {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            finished
        });
        if let Some(status) = output {
            assert!(status.success());
            break;
        }
        kills += 1;
        assert!(round < 200, "the comparison makes no progress");
    }
    assert!(kills >= 3, "only {kills} kills: the comparison is too short to be interrupted");
    for name in ["compare.csv", "compare.json"] {
        assert!(
            result(whole.path(), name) == result(broken.path(), name),
            "{name} differs after {kills} kills"
        );
    }
    for name in ["figures/compare.png", "figures/compare.svg"] {
        assert!(std::fs::metadata(broken.path().join(name)).unwrap().len() > 1000, "{name}");
    }

    // What is done is not done again: no run is started, and the result stays.
    let before = result(broken.path(), "compare.csv");
    let again = compare(broken.path(), METHODS, &extra).output().unwrap();
    assert!(again.status.success());
    let message = String::from_utf8(again.stderr).unwrap();
    assert!(!message.contains("so far") && !message.contains("parameters"), "{message}");
    assert_eq!(result(broken.path(), "compare.csv"), before);

    // Another command on the same directory is refused, with what differs.
    let seeds = compare(broken.path(), METHODS, &[]).output().unwrap();
    refused(&seeds, "ablate_rate: true -> false");
    let methods = compare(broken.path(), "grpo,rloo", &extra).output().unwrap();
    refused(&methods, "methods: [");
    let rate = compare(broken.path(), METHODS, &["--ablate-rate", "rl.lr=0.5"]).output().unwrap();
    refused(&rate, "rl.lr: ");
}

#[test]
fn all_methods_of_a_seed_start_from_one_supervised_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let done = compare(directory.path(), "grpo,rloo", &[]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(directory.path().join("compare.json")).unwrap()).unwrap();
    let before = |method: usize| json["methods"][method]["accuracy_before_by_seed"].clone();
    assert_eq!(before(0), before(1));
    for seed in [0, 1] {
        let supervised = directory.path().join(format!("supervised/seed-{seed}"));
        let summary: serde_json::Value =
            serde_json::from_slice(&std::fs::read(supervised.join("summary.json")).unwrap()).unwrap();
        assert_eq!(
            summary["accuracy_after"],
            before(0)[seed],
            "the start is the end of the supervised stage"
        );
        for method in ["grpo", "rloo"] {
            let metrics =
                std::fs::read_to_string(directory.path().join(format!("{method}/seed-{seed}/metrics.csv")))
                    .unwrap();
            let stages = metrics.lines().skip(2).map(|l| l.split(',').nth(1).unwrap());
            let steps: Vec<&str> = stages.filter(|stage| *stage != "eval").collect();
            assert_eq!(steps, ["rl"; 6], "no supervised step of its own");
        }
    }
    // Both a whole member and a supervised stage can be drawn.
    for (run, evidence) in [("grpo/seed-0", true), ("supervised/seed-1", false)] {
        let run = directory.path().join(run);
        let plot = llm_train(&["plot"]).arg(&run).output().unwrap();
        assert!(plot.status.success(), "{}", String::from_utf8_lossy(&plot.stderr));
        for (name, there) in [
            ("learning.png", true),
            ("learning.svg", true),
            ("evidence.png", evidence),
            ("evidence.svg", evidence),
        ] {
            assert_eq!(run.join("figures").join(name).is_file(), there, "{name}");
        }
    }
    // A member that someone changed is not taken for a result.
    let summary = directory.path().join("rloo/seed-1/summary.json");
    std::fs::write(&summary, "{}").unwrap();
    refused(&compare(directory.path(), "grpo,rloo", &[]).output().unwrap(), "not the summary of a run");
}

#[test]
fn a_wrong_command_is_refused_in_a_line_and_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("new");
    for (methods, extra, expected) in [
        ("grpo,grp_lambda", &[][..], "unknown method `grp_lambda` (did you mean `grpo_lambda`?)"),
        ("grpo", &[], "a comparison needs two methods or more"),
        ("grpo,rloo:style=both", &[], "rloo: unknown key `style`"),
        ("grpo,grpo", &[], "is given twice"),
        ("grpo,rloo", &["method.beta=0.1"], "as in --methods grpo:beta=0.1"),
        ("grpo,rloo", &["rl.lr=fast"], "rl.lr = fast: must be a number greater than 0"),
        ("grpo,rloo:rl.lr=-1", &[], "rl.lr = -1: must be a number greater than 0"),
        ("grpo,rloo", &["--preset", "no_such"], "`no_such` is neither a preset nor a file"),
    ] {
        let output = compare(&directory, methods, extra).output().unwrap();
        refused(&output, expected);
        assert!(!directory.exists(), "{methods} {extra:?}");
    }
    let none = llm_train(&["compare", "--methods", "grpo,rloo", "--seeds", "0"]).output().unwrap();
    refused(&none, "--seeds");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("thesis.tex"), "x").unwrap();
    refused(&compare(&directory, "grpo,rloo", &[]).output().unwrap(), "is not a comparison");
}

#[test]
fn what_is_no_run_is_not_drawn_and_said_in_a_line() {
    let root = tempfile::tempdir().unwrap();
    let plot = |path: &Path| llm_train(&["plot"]).arg(path).output().unwrap();
    refused(&plot(&root.path().join("absent")), "no such directory");
    refused(&plot(root.path()), "is not a run directory");
    let write = |name: &str, text: &str| std::fs::write(root.path().join(name), text).unwrap();
    write("config.toml", "seed = \"x\"");
    refused(&plot(root.path()), "seed = x");
    write("config.toml", "seed = 1");
    refused(&plot(root.path()), "metrics.csv");
    write("metrics.csv", "\u{0}\u{1}garbage");
    refused(&plot(root.path()), "no column `step`");
    write("metrics.csv", "# c\nstep,stage,loss\n0,rl,much\n");
    refused(&plot(root.path()), "row 1: loss = \"much\": must be a number");
    write("metrics.csv", "# c\nstep,stage,loss\n");
    refused(&plot(root.path()), "no step is recorded yet");
    assert!(!root.path().join("figures").exists());
    // Of a run under way there is something to draw.
    write("metrics.csv", "# c\nstep,stage,loss\n0,sft,2.5\n1,sft,2");
    let output = plot(root.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("Supervised learning under way, 1 of"));
    assert!(root.path().join("figures/learning.svg").is_file());
}
