//! The labelled cases, and the references of five benchmarks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Case {
    pub(super) class: String,
    pub(super) gold: String,
    pub(super) answer: String,
    pub(super) equal: Option<bool>,
    #[serde(default)]
    pub(super) why: String,
    #[serde(default)]
    pub(super) source: String,
}

pub(super) fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pool").join(name)
}

pub(super) fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// The records of a file of JSON lines.
pub(super) fn lines<T: for<'a> Deserialize<'a>>(path: &Path) -> Vec<T> {
    text(path).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The folder of benchmarks. `None`, with a line that says so, if there is none.
pub(super) fn benchmarks() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = std::env::var_os("GRPO_LAMBDA_DATA").map(PathBuf::from);
    let beside = [2, 3, 4, 5].map(|up| root.join("../".repeat(up)).join("shared/data"));
    let found = named.into_iter().chain(beside).map(|p| p.join("benchmarks")).find(|p| p.is_dir());
    if found.is_none() {
        println!("skipped: no ../shared/data beside the repository, and GRPO_LAMBDA_DATA names none");
    }
    found
}

/// An answer in a benchmark: a text or a number.
pub(super) fn written(answer: &Value) -> String {
    answer.as_str().map_or_else(|| answer.to_string(), str::to_owned)
}

/// Every reference of the five benchmarks once, without blanks around.
pub(super) fn golds(folder: &Path) -> BTreeSet<String> {
    let files = ["aime24", "amc", "math500", "minerva", "olympiad"];
    let rows = files.iter().flat_map(|name| lines::<Value>(&folder.join(name).with_extension("jsonl")));
    let answers = |row: Value| row["answers"].as_array().unwrap().iter().map(written).collect::<Vec<_>>();
    rows.flat_map(answers).map(|answer| answer.trim().to_owned()).collect()
}
