//! The controls: whether the experiment can tell anything, and how verifier credit does against methods that assign none.

use super::compare::{Gate, Rule};
use super::findings::{label, places, ratio_of};
use super::rows::{COMPARED, permuted_wins};
use super::shown::pair_rows;
use super::updates::Update;
use super::{ANTI, Arm, CLAMP, Numbers, ORACLE, REFERENCE, SINGLE, TRACE};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{Shown, holds_or, keyed, ratio};

fn controls(gate: Gate) -> String {
    format!("verifier credit {}, permuted credit {}", ratio(gate.verifier), ratio(gate.permuted))
}

/// The verdict on the gate: it says under which rule it is passed.
fn on_gate(own: Gate, counted: Option<Gate>) -> Verdict {
    match (own.is_passed(), counted) {
        (false, _) => Verdict::NotTold(format!(
            "{}: by the protocol's own gate the experiment is void, and no method is compared",
            controls(own)
        )),
        (true, Some(counted)) if !counted.is_passed() => Verdict::HoldsWhen(format!(
            "pairs of which neither run reached the target are left out, the rule of version 5; where such a pair counts as a ratio of 1, the rule of version 4, verifier credit needs {} and the gate is void",
            ratio(counted.verifier)
        )),
        (true, _) => Verdict::Holds,
    }
}

/// The gate of the first cell.
pub(super) fn gate(n: &Numbers) -> Option<Finding> {
    let gate = n.gate()?;
    let cell = n.cells.first()?;
    let missed = |name: &str| cell.arm(name).map_or(0, Arm::missed);
    let other = |cell: &super::GateCell| {
        format!("{}, rule of version {}: {}", cell.runs.words(), cell.rule.version(), controls(cell.gate))
    };
    let others: Vec<String> = n.gates.iter().map(other).collect();
    Some(keyed("gate",
        "Verifier credit needs at most half of RLOO's tokens in the mean over pairs on chains of eight operations, and permuted credit at least as many as RLOO",
        on_gate(gate, n.gate_under(Rule::One)),
        format!(
            "tokens to an accuracy of {} over RLOO's, geometric mean over those of {} paired seeds on which one of the two reached it, at the rate that other seeds chose, Student's t at 95 % (protocol version {}). Verifier credit {} over {} seeds, permuted credit {} over {}; runs that did not reach it: {} of RLOO, {} of verifier credit, {} of permuted credit. By runs and rule: {}",
            n.protocol.exam.target,
            cell.arm(ORACLE)?.runs.len(),
            n.protocol.version,
            ratio(gate.verifier),
            gate.pairs[0],
            ratio(gate.permuted),
            gate.pairs[1],
            missed(REFERENCE),
            missed(ORACLE),
            missed(ANTI),
            others.join("; ")
        ),
    ).value("target", n.protocol.exam.target))
}

/// Verifier credit against a control that treats all tokens of a response alike.
pub(super) fn against_clamp(n: &Numbers) -> Option<Finding> {
    let cell = n.cell(SINGLE)?;
    let compared = cell.compare(ORACLE, CLAMP)?;
    let verdict = match Shown::by_interval(compared.interval) {
        Shown::Loss => Verdict::Holds,
        Shown::Gain => Verdict::Fails(ratio_of(&compared)),
        Shown::Neither => Verdict::NotTold(format!(
            "{}: verifier credit is not significantly better than a control without credit",
            ratio_of(&compared)
        )),
    };
    let said = |(arm, over): (&str, &str)| {
        Some(format!("{} over {}: {}", label(arm), label(over), ratio_of(&cell.compare(arm, over)?)))
    };
    let pairs = pair_rows(n);
    let wins = |version: u32| {
        permuted_wins(&pairs, version).iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
    };
    Some(keyed(
        "against_clamp",
        "Verifier credit needs fewer tokens than GRPO with the clamp, which assigns no credit within a response",
        verdict,
        format!(
            "tokens, geometric mean over pairs, Student's t at 95 %, p before correction. {}. Permuted credit reaches the target with fewer tokens than verifier credit spends on seeds {}, and in version 4 on {}",
            COMPARED.into_iter().filter_map(said).collect::<Vec<_>>().join("; "),
            wins(n.protocol.version),
            wins(Rule::One.version())
        ),
    ))
}

/// The noise of the updates of verifier credit, the trace and the clamp.
pub(super) fn verifier_noise(n: &Numbers) -> Option<Finding> {
    let own: Vec<&Update> = n.updates.iter().filter(|u| u.arm == ORACLE).collect();
    let seeds = own.first()?.seeds;
    let open = own.iter().filter(|u| u.noise.high >= 1.0);
    let open: Vec<String> = open.map(|u| format!("at the {} {}", u.place, ratio(u.noise))).collect();
    let each = [ORACLE, TRACE, CLAMP, ANTI];
    let each = each.map(|arm| format!("{}: {}", label(arm), places(n, arm, |u| ratio(u.noise))));
    Some(keyed(
        "verifier_noise",
        "Verifier credit has less noise than RLOO's update at the start, in the middle and at the end of a run",
        holds_or(open.is_empty(), open.join("; ")),
        format!("noise over RLOO's, Student's t at 95 % over {seeds} seeds. {}", each.join("; ")),
    ))
}
