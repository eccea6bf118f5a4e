//! The gate, the predictions of the protocol with their outcomes, and the comparisons that no prediction names.

use super::{CLAMP, GRPO, Numbers, PAPER, PERMUTED, REFERENCE, SETS, TEMPO, TEXTBOOK, TRACE, VERIFIER};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::claim::claim;
use crate::experiments::common::list;
use grpo_lambda_trials::{Compared, Difference, Verdict as Effect};

/// The outcome of a prediction; that of several parts is the greatest of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::experiments) enum Outcome {
    Held,
    Open,
    Failed,
}

impl Outcome {
    pub(in crate::experiments) fn verdict(self) -> Verdict {
        match self {
            Outcome::Held => Verdict::Holds,
            Outcome::Open => Verdict::Inconclusive("a comparison is inconclusive".into()),
            Outcome::Failed => Verdict::Fails("a comparison shows the opposite".into()),
        }
    }
}

/// Prediction about a difference. A gain that is denied is refuted by a gain alone.
#[derive(Clone, Copy)]
pub(in crate::experiments) enum Said {
    Gains,
    DoesNotGain,
    Loses,
}

impl Said {
    pub(in crate::experiments) fn outcome(self, effect: Effect) -> Outcome {
        let holds = match self {
            Said::Gains => effect == Effect::Higher,
            Said::DoesNotGain => effect != Effect::Higher,
            Said::Loses => effect == Effect::Lower,
        };
        match effect {
            Effect::Inconclusive => Outcome::Open,
            _ if holds => Outcome::Held,
            Effect::Higher | Effect::Lower | Effect::Equivalent => Outcome::Failed,
        }
    }
}

/// Adds a comparison: its interval and its corrected p.
pub(in crate::experiments) fn with(finding: Finding, name: &str, d: &Difference) -> Finding {
    finding
        .interval(format!("{name}: difference"), d.interval)
        .value(format!("{name}: corrected p"), d.corrected)
}

/// A prediction with the comparisons that decide it, by name; `None` where one is missing.
pub(in crate::experiments) fn prediction<'d>(
    (key, statement): (&str, &str),
    margin: f64,
    parts: impl IntoIterator<Item = (String, Option<&'d Difference>, Said)>,
) -> Option<(Outcome, Finding)> {
    let (mut outcome, mut finding) = (Outcome::Held, claim(key, statement).verdict(Verdict::Holds));
    for (name, difference, said) in parts {
        let difference = difference?;
        outcome = outcome.max(said.outcome(difference.verdict(margin)));
        finding = with(finding, &name, difference);
    }
    Some((outcome, Finding { verdict: outcome.verdict(), ..finding }.rows("compared", &[])))
}

/// The predictions from the second on; the first is the gate.
fn predictions(n: &Numbers) -> Option<Vec<(Outcome, Finding)>> {
    let baseline = "P2: Verifier credit with the baseline b* is better than with the baseline V";
    let trace = "P3: The trace alone is not better than GRPO";
    let clamp =
        "P4: GRPO with the clamp is better than GRPO, and GRPO-λ is not better than GRPO with the clamp";
    let tempo = "P5: TEMPO is not better than RLOO";
    let prediction = |of, parts: &[([&str; 2], Said)]| {
        let parts = parts.iter().map(|&(pair, said)| (n.name(pair), n.family(pair), said));
        prediction(of, n.study.margin, parts)
    };
    let all = [
        prediction(("baseline", baseline), &[([VERIFIER, TEXTBOOK], Said::Gains)]),
        prediction(("trace", trace), &[([TRACE, GRPO], Said::DoesNotGain)]),
        prediction(("clamp", clamp), &[([CLAMP, GRPO], Said::Gains), ([PAPER, CLAMP], Said::DoesNotGain)]),
        prediction(("tempo", tempo), &[([TEMPO, REFERENCE], Said::DoesNotGain)]),
    ];
    all.into_iter().collect()
}

/// The gate, which is the first prediction.
fn gate(n: &Numbers) -> Option<Finding> {
    n.gate.first()?;
    let statement = "P1: Verifier credit (Q - b*) has a higher mean accuracy over the budget than RLOO and than \
        permuted credit, which is the same credit at random steps";
    let mut finding = claim("gate", statement)
        .holds_or(n.is_gate_passed(), "the gate is not passed, and no method is compared")
        .value("tokens of the budget", n.study.budget)
        .value("seeds", n.study.seeds.evaluation.len())
        .value("margin of equivalence", n.study.margin);
    for Compared { pair, difference } in &n.gate {
        finding = finding.interval(n.name([&pair.method, &pair.with]), difference.interval);
    }
    let at_an_end = n.methods.iter().filter(|m| m.at_an_end);
    let ends: Vec<&str> = at_an_end.map(|m| m.label.as_str()).collect();
    Some(finding.value("methods whose rate is an end of the grid", list(&ends)).note(
        "Mean held-out accuracy over the budget of sampled tokens, paired by seed, each method at the rate that other seeds chose, Student's t at 95 %.",
    ))
}

/// The finding on the number of predictions that held.
pub(in crate::experiments) fn summary(outcomes: &[Outcome]) -> Finding {
    let with = |(wanted, word): (Outcome, &str)| {
        let named = outcomes.iter().zip(1..).filter(|(outcome, _)| **outcome == wanted);
        let names: Vec<String> = named.map(|(_, k)| format!("P{k}")).collect();
        (!names.is_empty()).then(|| format!("{} {word}", names.join(", ")))
    };
    let each = [(Outcome::Held, "held"), (Outcome::Open, "open"), (Outcome::Failed, "failed")];
    let each = each.into_iter().filter_map(with).collect::<Vec<_>>().join("; ");
    let held = outcomes.iter().filter(|outcome| **outcome == Outcome::Held).count();
    let verdict = match outcomes.iter().max() {
        Some(Outcome::Failed) => Verdict::Fails(each.clone()),
        Some(Outcome::Open) => Verdict::Inconclusive(each.clone()),
        Some(Outcome::Held) | None => Verdict::Holds,
    };
    claim("predictions", "All predictions that were committed before the runs hold")
        .verdict(verdict)
        .value("held", held)
        .value("predictions", outcomes.len())
        .value("outcomes", each)
        .note("Every comparison is in the table, Holm over the family.")
        .rows("compared", &[])
}

/// A gain that no prediction names.
fn gain(n: &Numbers, key: &str, statement: &str, pair: [&str; 2]) -> Option<Finding> {
    let d = n.family(pair)?;
    let verdict = verdict_on_gain(d.verdict(n.study.margin), n.study.margin);
    Some(with(claim(key, statement).verdict(verdict), &n.name(pair), d).rows("compared", &[]))
}

/// The verdict on "gains" from the verdict on a difference.
pub(in crate::experiments) fn verdict_on_gain(effect: Effect, margin: f64) -> Verdict {
    match effect {
        Effect::Equivalent => Verdict::Fails(format!("the two are equivalent within {margin}")),
        Effect::Higher => Verdict::Holds,
        Effect::Lower => Verdict::Fails("the opposite is shown".into()),
        Effect::Inconclusive => Verdict::Inconclusive("no difference is shown".into()),
    }
}

fn gains(n: &Numbers) -> impl Iterator<Item = Finding> {
    let against_clamp = "Verifier credit (Q - b*) is better than GRPO with the clamp, which assigns no credit within a response";
    let all = [
        ("textbook", "Verifier credit with the baseline V is better than RLOO", [TEXTBOOK, REFERENCE]),
        ("against_clamp", against_clamp, [VERIFIER, CLAMP]),
        ("paper", "GRPO-λ as published is better than GRPO", [PAPER, GRPO]),
        ("sets", "Systematic sets are better than RLOO", [SETS, REFERENCE]),
    ];
    all.into_iter().filter_map(|(key, statement, pair)| gain(n, key, statement, pair))
}

/// The noise of the methods' updates.
fn verifier_noise(n: &Numbers) -> Option<Finding> {
    let mut own = n.updates.iter().filter(|update| update.arm == VERIFIER).peekable();
    own.peek()?;
    let statement = "The update of verifier credit (Q - b*) has less noise than RLOO's at the start, in the \
        middle and at the end of a run";
    Some(
        claim("verifier_noise", statement)
            .holds_or(own.all(|update| update.noise.high < 1.0), "an interval of the ratio contains 1")
            .rows("updates", &["place", "arm", "seeds", "noise", "noise_low", "noise_high"])
            .only("arm", &[VERIFIER, TRACE, CLAMP, PERMUTED])
            .note("Noise over RLOO's, Student's t at 95 % over seeds."),
    )
}

/// The findings in their order; without a gate that is passed, the gate alone.
pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let Some(gate) = gate(n) else { return Vec::new() };
    let found = predictions(n).unwrap_or_default();
    let first = if n.is_gate_passed() { Outcome::Held } else { Outcome::Failed };
    let outcomes: Vec<Outcome> = [first].into_iter().chain(found.iter().map(|(o, _)| *o)).collect();
    let summary = (!found.is_empty()).then(|| summary(&outcomes));
    let judged = found.into_iter().map(|(_, finding)| finding);
    [gate].into_iter().chain(summary).chain(judged).chain(gains(n)).chain(verifier_noise(n)).collect()
}
