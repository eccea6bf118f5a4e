//! A statement on its way to a [`Finding`], which the numbers decide.

use super::{EXACT, holds_or, holds_when, rounding_error, short};
use crate::experiment::{Finding, Verdict};
use crate::sentences::SentenceId;

/// A statement without its verdict.
pub(crate) struct Claim(Finding);

/// A statement of ours.
pub(crate) fn claim(key: &str, statement: &str) -> Claim {
    Claim(Finding::new(key, statement, Verdict::Holds))
}

/// A sentence of the paper.
pub(crate) fn quoted(id: SentenceId) -> Claim {
    Claim(Finding::on(id, Verdict::Holds))
}

impl Claim {
    pub(crate) fn verdict(self, verdict: Verdict) -> Finding {
        Finding { verdict, ..self.0 }
    }

    /// Judges by [`holds_or`].
    pub(crate) fn holds_or(self, ok: bool, counterexample: impl Into<String>) -> Finding {
        self.verdict(holds_or(ok, counterexample))
    }

    /// Judges by [`holds_when`].
    pub(crate) fn holds_when(
        self,
        everywhere: bool,
        under_condition: bool,
        condition: impl Into<String>,
        counterexample: impl Into<String>,
    ) -> Finding {
        self.verdict(holds_when(everywhere, under_condition, condition, counterexample))
    }

    /// `Holds` if the worst of some differences is at most `tolerance`, else `Fails` with it.
    pub(crate) fn all_within(self, tolerance: f64, worst: f64) -> Finding {
        self.holds_or(worst <= tolerance, format!("off by {}", short(worst)))
    }

    /// Judges an identity whose two sides differ by at most this.
    pub(crate) fn identity(self, largest: f64) -> Finding {
        self.all_within(EXACT, largest).value("largest difference", rounding_error(largest))
    }
}

/// The words of the verdicts: for tests that feed findings with made-up numbers.
#[cfg(test)]
pub(crate) fn words(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|f| f.verdict.word()).collect()
}

/// The words of the verdicts on made-up numbers after a change.
#[cfg(test)]
pub(crate) fn words_after<Numbers>(
    mut numbers: Numbers,
    findings: fn(&Numbers) -> Vec<Finding>,
    change: fn(&mut Numbers),
) -> Vec<&'static str> {
    change(&mut numbers);
    words(&findings(&numbers))
}
