//! A training run as a user starts it: an interrupted one continues to the same bytes.
#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use grpo_lambda_llm::run_dir;

/// A run of the test task small enough for every test.
const SMALL: &[&str] = &[
    "task.kind=addition",
    "model.hidden=32",
    "model.layers=2",
    "model.heads=2",
    "model.kv_heads=1",
    "model.intermediate=64",
    "threads=2",
];

fn llm_train(directory: &Path, settings: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_llm-train"));
    command.arg("train").arg("--run").arg(directory).args(SMALL).args(settings);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The files that must not depend on the clock.
fn lasting(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = ["config.toml", "metrics.jsonl", "metrics.csv", "samples.jsonl"]
        .map(|name| (name.to_owned(), std::fs::read(directory.join(name)).unwrap()))
        .to_vec();
    let last = run_dir::latest(directory).unwrap().expect("a finished run has a checkpoint");
    for name in last.files() {
        files.push((name.to_owned(), last.read(name).unwrap()));
    }
    files
}

#[test]
fn a_run_killed_again_and_again_ends_in_the_bytes_of_an_unbroken_one() {
    let settings = [
        "sft.steps=30",
        "rl.steps=12",
        "rl.prompts_per_step=4",
        "rl.group_size=4",
        "rl.inner_updates=2",
        "eval.n=20",
        "eval.every=5",
        "checkpoint.every=3",
        "method.beta=0.04",
    ];
    let whole = tempfile::tempdir().unwrap();
    let done = llm_train(whole.path(), &settings).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));

    let broken = tempfile::tempdir().unwrap();
    let mut kills = 0;
    // Ever later, at moments that fall anywhere: in a step, in an evaluation, in the writing of a checkpoint.
    for round in 1u64.. {
        let mut child = llm_train(broken.path(), &settings).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(23 * round));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        assert!(round < 400, "the run makes no progress");
    }
    assert!(kills >= 3, "only {kills} kills: the run is too short to be interrupted");
    // The command line, in the first comment of the CSV, names the directory.
    let strip = |directory: &Path| {
        let named = directory.display().to_string();
        let clean = |(name, bytes): (String, Vec<u8>)| match name.as_str() {
            "metrics.csv" => (name, String::from_utf8(bytes).unwrap().replace(&named, "RUN").into_bytes()),
            _ => (name, bytes),
        };
        lasting(directory).into_iter().map(clean).collect::<Vec<_>>()
    };
    let (a, b) = (strip(whole.path()), strip(broken.path()));
    assert_eq!(a.len(), b.len());
    for ((name, a), (_, b)) in a.iter().zip(&b) {
        assert!(a == b, "{name} differs after {kills} kills");
    }
}

#[test]
fn another_configuration_does_not_continue_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let settings = ["sft.steps=2", "rl.steps=0", "eval.n=4"];
    assert!(llm_train(directory.path(), &settings).status().unwrap().success());
    let changed = llm_train(directory.path(), &["sft.steps=3", "rl.steps=0", "eval.n=4"]).output().unwrap();
    let message = String::from_utf8(changed.stderr).unwrap();
    assert_eq!(changed.status.code(), Some(2), "{message}");
    assert!(message.contains("sft.steps: 2 -> 3"), "{message}");
}
