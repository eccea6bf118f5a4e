//! Files committed under `paper/` and `notebooks/`, and every page of the repository, against fresh numbers and the
//! rules for pages.
//!
//! One binary: each of them links the whole library, and together they fill both cores.

mod addition;
mod baselines;
mod branch;
mod chain;
mod chain_earlier;
mod clamp_parts;
#[path = "../../../../tests/long/mod.rs"]
mod long;
mod markdown;
mod noise_rewards;
mod notebooks;
mod paper;
mod paper_audit;
mod pretrained;
mod trials;

use grpo_lambda_stats::table::Table;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the repository.
fn text(path: &str) -> String {
    let text = std::fs::read_to_string(root().join(path));
    text.unwrap_or_else(|e| panic!("{path}: {e}; run `cargo run --bin sim -- --regenerate`"))
}

/// A page with one space between its words.
fn one_line(page: &str) -> String {
    text(page).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A protocol of `paper/protocols`.
fn protocol<P: DeserializeOwned>(name: &str) -> P {
    toml::from_str(&text(&format!("paper/protocols/{name}.toml"))).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A committed file of `paper/data`.
fn committed(file: &str) -> Table {
    Table::from_csv(&text(&format!("paper/data/{file}"))).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// The rows of a committed file of `paper/data`, by the columns that `R` names.
fn rows<R: DeserializeOwned>(file: &str) -> Vec<R> {
    committed(file).to_rows().unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// A row by the names of its columns.
type Row = BTreeMap<String, String>;

fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|e| panic!("{column}: {e}: {row:?}"))
}

/// A finding as it is committed.
#[derive(Deserialize)]
struct Found {
    key: String,
    statement: String,
    verdict: String,
    values: String,
}

/// The committed findings of an experiment.
fn findings(id: &str) -> Vec<Found> {
    rows(&format!("{id}_verdicts.csv"))
}

/// The committed finding of an experiment that has this key.
fn finding(id: &str, key: &str) -> Found {
    let found = findings(id).into_iter().find(|found| found.key == key);
    found.unwrap_or_else(|| panic!("{id}: no finding is called {key}"))
}

/// Mean, and the ends of Student's t interval with a quantile.
fn interval(xs: &[f64], t: f64) -> [f64; 3] {
    let n = xs.len() as f64;
    let mean = xs.iter().sum::<f64>() / n;
    let half = t * (xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    [mean, mean - half, mean + half]
}

/// Two machines may differ in the last bit of `exp`; nothing else.
const RELATIVE: f64 = 1e-6;
/// Rounding residue (a difference that should be 0) may differ entirely.
const ABSOLUTE: f64 = 1e-9;

fn close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= ABSOLUTE + RELATIVE * a.abs().max(b.abs())
}

/// The allocator of `sim`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
