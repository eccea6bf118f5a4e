//! The pretrained model: differences that pages say first about `pretrained`, from the data.

use super::data::{Data, Difference, rows};
use anyhow::ensure;
use serde::Deserialize;
use std::path::Path;

/// The columns of a row of `pretrained_compared.csv` that pages quote.
#[derive(Deserialize)]
struct ComparedRow {
    method: String,
    with: String,
    difference: f64,
    difference_low: f64,
    difference_high: f64,
    /// `higher`, `lower`, `equivalent` or `inconclusive`.
    verdict: String,
}

/// The difference of a method from GRPO; refused if its verdict is not the one that pages say in words.
pub(super) fn minus_grpo(folder: &Path, method: &str, verdict: &str) -> anyhow::Result<Difference> {
    let data = Data::<ComparedRow>::read(folder, "pretrained_compared.csv")?;
    let row = rows!(data, method = method, with = "grpo")?[0];
    ensure!(
        row.verdict == verdict,
        "pretrained_compared.csv: {method} against grpo is {}, and the pages say {verdict}; mend their words",
        row.verdict
    );
    Ok(Difference { mid: row.difference, low: row.difference_low, high: row.difference_high })
}
