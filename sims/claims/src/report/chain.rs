//! Credit on chains: what the pages say first about `chain`, from the data.

use super::data::{Data, rows};
use crate::experiments::chain::rows::{BySeed, ComparedRow, PairRow};
use crate::experiments::chain::{CLAMP, GRPO, ORACLE, TRACE};
use anyhow::{Context as _, ensure};
use std::path::Path;

fn interval([mid, low, high]: [f64; 3]) -> String {
    format!("{mid:.2} ({low:.2} to {high:.2})")
}

fn compared(folder: &Path, arm: &str, over: &str) -> anyhow::Result<[f64; 3]> {
    let data = Data::<ComparedRow>::read(folder, "chain_compared.csv")?;
    let row = rows!(data, arm = arm, over = over)?[0];
    Ok([row.tokens, row.tokens_low, row.tokens_high])
}

/// The tokens of an arm over those of another, with their interval.
pub(super) fn ratio(folder: &Path, arm: &str, over: &str) -> anyhow::Result<String> {
    compared(folder, arm, over).map(interval)
}

/// Refuses a ratio that shows an effect where a text says that none is shown.
fn open(folder: &Path, arm: &str, over: &str) -> anyhow::Result<String> {
    let ratio = compared(folder, arm, over)?;
    ensure!(
        ratio[1] <= 1.0 && 1.0 <= ratio[2],
        "chain_compared.csv: {arm} over {over} shows an effect, against the pages that quote it"
    );
    Ok(interval(ratio))
}

fn of_seeds(folder: &Path) -> anyhow::Result<String> {
    let pairs = Data::<PairRow>::read(folder, "chain_pairs.csv")?;
    let seeds = BySeed::new(rows!(pairs, arm = ORACLE, version = 5)?);
    seeds.said().context("chain_pairs.csv: verifier credit needs fewer tokens on no seed")
}

/// The last point of the front page.
pub(super) fn in_a_line(folder: &Path) -> anyhow::Result<String> {
    Ok(format!(
        "**Credit can help**: from a verifier it took {} of one task; against GRPO with \
         the clamp {}, no significant difference.",
        of_seeds(folder)?,
        open(folder, ORACLE, CLAMP)?
    ))
}

/// The sentences of the report's first point.
pub(super) fn in_short(folder: &Path) -> anyhow::Result<String> {
    Ok(format!(
        "On chains of operations whose first wrong token a verifier knows, verifier credit, a model of Q minus the \
         baseline of least variance, takes {}. Over GRPO with the clamp, which treats all tokens of a response alike, \
         that is {} of the tokens: not significantly better than a control without credit. The trace at a mean weight \
         of 1 takes {} of GRPO's tokens: no effect is shown.",
        of_seeds(folder)?,
        open(folder, ORACLE, CLAMP)?,
        open(folder, TRACE, GRPO)?
    ))
}
