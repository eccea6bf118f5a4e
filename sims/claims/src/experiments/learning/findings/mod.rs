//! What the numbers say.

mod causes;
mod regimes;
mod words;

use super::measure::Comparison;
use super::scores::Regime;
use crate::experiment::Finding;

/// All findings; the first is the headline.
pub(super) fn findings(c: &Comparison) -> Vec<Finding> {
    let mut findings = vec![regimes::headline(c)];
    findings.extend(Regime::ALL.map(|regime| regimes::paper_under(c, regime)));
    findings.extend([
        regimes::gap(c),
        regimes::regardless(c),
        causes::step_size(c),
        causes::clamp(c),
        causes::direction(c),
        causes::inversion(c),
        causes::grid(c),
    ]);
    findings
}

#[cfg(test)]
mod tests;
