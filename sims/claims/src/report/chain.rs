//! Credit on chains: what the pages say first about `chain`, from the data.

use super::data::Difference;
use crate::experiments::chain::{CLAMP, GRPO, PAPER, PERMUTED, REFERENCE, TEXTBOOK, TRACE, VERIFIER};
use std::path::Path;

const FILE: &str = "chain_compared.csv";

fn family(folder: &Path, method: &str, with: &str, verdict: &str) -> anyhow::Result<Difference> {
    Difference::of_family(folder, FILE, method, with, verdict)
}

fn gate(folder: &Path, with: &str) -> anyhow::Result<Difference> {
    Difference::of_gate(folder, FILE, VERIFIER, with)
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
