//! Findings, and verdicts from conditions.

use crate::experiment::{Finding, Verdict};
use crate::sentences::SentenceId;

/// A finding on a question of ours.
pub(crate) fn finding(statement: impl Into<String>, verdict: Verdict, numbers: impl Into<String>) -> Finding {
    Finding { tests: None, statement: statement.into(), verdict, numbers: numbers.into() }
}

/// The finding that tests a sentence of the paper.
pub(crate) fn finding_on(id: SentenceId, verdict: Verdict, numbers: impl Into<String>) -> Finding {
    Finding { tests: Some(id), ..finding(id.sentence().statement, verdict, numbers) }
}

/// `Holds` if `ok`, else `Fails` with the counterexample.
pub(crate) fn holds_or(ok: bool, counterexample: impl Into<String>) -> Verdict {
    if ok { Verdict::Holds } else { Verdict::Fails(counterexample.into()) }
}

/// `Holds` if it does everywhere, `HoldsWhen` if it does exactly under the condition, else `Fails`.
pub(crate) fn holds_when(
    everywhere: bool,
    under_condition: bool,
    condition: impl Into<String>,
    counterexample: impl Into<String>,
) -> Verdict {
    match (everywhere, under_condition) {
        (true, _) => Verdict::Holds,
        (false, true) => Verdict::HoldsWhen(condition.into()),
        (false, false) => Verdict::Fails(counterexample.into()),
    }
}

/// The words of the verdicts: for tests that feed findings with made-up numbers.
#[cfg(test)]
pub(crate) fn words(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|f| f.verdict.word()).collect()
}
