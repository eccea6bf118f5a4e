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

use grpo_lambda_stats::table::Table;
use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A committed file of `paper/data`.
fn committed(file: &str) -> Table {
    let text = std::fs::read_to_string(root().join("paper/data").join(file));
    let text = text.unwrap_or_else(|e| panic!("{file}: {e}; run `cargo run --bin sim -- --regenerate`"));
    Table::from_csv(&text).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// The allocator of `sim`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
