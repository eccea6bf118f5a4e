//! The controls: whether the experiment can tell anything, and how verifier credit does against methods that assign none.

use super::compare::Rule;
use super::findings::showing_noise;
use super::rows::{GateRow, permuted_wins};
use super::shown::pair_rows;
use super::{ANTI, CLAMP, Numbers, ORACLE, SINGLE, TRACE};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{Shown, holds_or};

/// The verdict on the gate: it says under which rule it is passed.
fn on_gate(own: &GateRow, counted: Option<&GateRow>) -> Verdict {
    match (own.is_passed(), counted) {
        (false, _) => Verdict::NotTold(
            "by the protocol's own gate the experiment is void, and no method is compared".into(),
        ),
        (true, Some(counted)) if !counted.is_passed() => Verdict::HoldsWhen(format!(
            "pairs of which neither run reached the target are left out, the rule of version 5; where such a pair counts as a ratio of 1, the rule of version 4, verifier credit needs {:.3} and the gate is void",
            counted.tokens
        )),
        (true, _) => Verdict::Holds,
    }
}

/// The gate of the first cell.
pub(super) fn gate(n: &Numbers) -> Option<Finding> {
    let statement = "Verifier credit needs at most half of RLOO's tokens in the mean over pairs on chains of eight operations, and permuted credit at least as many as RLOO";
    let finding = Finding::new("gate", statement, on_gate(n.gate()?, n.gate_under(Rule::One)))
        .value("target", n.protocol.exam.target)
        .value("version of the protocol", n.protocol.version)
        .rows("gate", &[])
        .note("Tokens to the target over RLOO's, geometric mean over paired seeds at the rate that other seeds chose, Student's t at 95 %.");
    let missed =
        n.cells.first()?.arms.iter().filter(|arm| ["rloo", ORACLE, ANTI].contains(&arm.name.as_str()));
    Some(missed.fold(finding, |finding, arm| {
        finding.value(format!("runs of {} that missed it", super::findings::label(&arm.name)), arm.missed())
    }))
}

/// Verifier credit against a control that treats all tokens of a response alike.
pub(super) fn against_clamp(n: &Numbers) -> Option<Finding> {
    let compared = n.cell(SINGLE)?.compare(ORACLE, CLAMP)?;
    let verdict = match Shown::by_interval(compared.ratio.interval) {
        Shown::Loss => Verdict::Holds,
        Shown::Gain => Verdict::Fails("it needs more".into()),
        Shown::Neither => Verdict::NotTold(
            "verifier credit is not significantly better than a control without credit".into(),
        ),
    };
    let pairs = pair_rows(n);
    let statement = "Verifier credit needs fewer tokens than GRPO with the clamp, which assigns no credit within a response";
    Some(
        Finding::new("against_clamp", statement, verdict)
            .value(
                "seeds on which permuted credit needs fewer than verifier credit",
                permuted_wins(&pairs, n.protocol.version),
            )
            .value("in version 4", permuted_wins(&pairs, Rule::One.version()))
            .rows("compared", &[])
            .note("Tokens, geometric mean over pairs, Student's t at 95 %, p before correction."),
    )
}

/// The noise of the updates of verifier credit, the trace and the clamp.
pub(super) fn verifier_noise(n: &Numbers) -> Option<Finding> {
    let mut own = n.updates.iter().filter(|u| u.arm == ORACLE).peekable();
    own.peek()?;
    let statement = "Verifier credit has less noise than RLOO's update at the start, in the middle and at the end of a run";
    let verdict = holds_or(own.all(|u| u.noise_high < 1.0), "an interval reaches RLOO's");
    Some(showing_noise(Finding::new("verifier_noise", statement, verdict), &[ORACLE, TRACE, CLAMP, ANTI]))
}
