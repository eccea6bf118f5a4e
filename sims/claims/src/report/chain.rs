//! Credit on chains: what the pages say first about `chain`, from the data.

use super::data::{Data, Difference, rows};
use crate::experiments::chain::rows::ComparedRow;
use crate::experiments::chain::{CLAMP, GRPO, PAPER, PERMUTED, REFERENCE, TEXTBOOK, TRACE, VERIFIER};
use anyhow::ensure;
use std::path::Path;

/// A comparison of the family; refused if its verdict is not the one that the pages say in words.
fn family(folder: &Path, method: &str, with: &str, verdict: &str) -> anyhow::Result<Difference> {
    let data = Data::<ComparedRow>::read(folder, "chain_compared.csv")?;
    let row = rows!(data, role = "family", method = method, with = with)?[0];
    ensure!(
        row.verdict == verdict,
        "chain_compared.csv: {method} against {with} is {}, and the pages say {verdict}; mend their words",
        row.verdict
    );
    Ok(Difference { mid: row.difference, low: row.difference_low, high: row.difference_high })
}

/// A comparison of the gate; refused if its interval holds 0.
fn gate(folder: &Path, with: &str) -> anyhow::Result<Difference> {
    let data = Data::<ComparedRow>::read(folder, "chain_compared.csv")?;
    let row = rows!(data, role = "gate", method = VERIFIER, with = with)?[0];
    ensure!(
        row.difference_low > 0.0,
        "chain_compared.csv: the gate is not passed, against the pages that interpret comparisons"
    );
    Ok(Difference { mid: row.difference, low: row.difference_low, high: row.difference_high })
}

/// The gain of GRPO with the clamp over GRPO.
pub(super) fn of_clamp(folder: &Path) -> anyhow::Result<String> {
    Ok(family(folder, CLAMP, GRPO, "higher")?.with_ends())
}

/// The accuracy of the clamp, the trace and both, minus GRPO's.
pub(super) fn minus_grpo(folder: &Path) -> anyhow::Result<[f64; 3]> {
    let minus = |method, verdict| anyhow::Ok(family(folder, method, GRPO, verdict)?.mid);
    Ok([minus(CLAMP, "higher")?, minus(TRACE, "lower")?, minus(PAPER, "higher")?])
}

/// The accuracy with a verifier's credit, minus RLOO's.
pub(super) fn of_verifier(folder: &Path) -> anyhow::Result<f64> {
    family(folder, TEXTBOOK, REFERENCE, "equivalent")?;
    Ok(gate(folder, REFERENCE)?.mid)
}

/// The sentences of the report's first point.
pub(super) fn in_short(folder: &Path) -> anyhow::Result<String> {
    Ok(format!(
        "On chains of operations *verifier credit* comes from a verifier that finds the first wrong token. In mean \
         held-out accuracy verifier credit is better than RLOO by {}, and better than the same credit at random \
         steps by {}. With V as the baseline instead of that of least variance, verifier credit is equivalent to \
         RLOO: the difference is {}. On these chains GRPO-λ is better than GRPO by {}. The difference of GRPO-λ \
             from clamped GRPO is {}, and that of the trace alone from GRPO is {}.",
        gate(folder, REFERENCE)?.with_ends(),
        gate(folder, PERMUTED)?.with_ends(),
        family(folder, TEXTBOOK, REFERENCE, "equivalent")?.with_ends(),
        family(folder, PAPER, GRPO, "higher")?.with_ends(),
        family(folder, PAPER, CLAMP, "lower")?.with_ends(),
        family(folder, TRACE, GRPO, "lower")?.with_ends(),
    ))
}
