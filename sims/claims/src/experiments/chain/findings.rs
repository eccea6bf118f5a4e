//! The gate, the predictions of the protocol with their outcomes, and the comparisons that no prediction names.

use super::earlier::{CLAMP as EARLIER_CLAMP, EARLIER_PERMUTED, EARLIER_VERIFIER, TRACE as EARLIER_TRACE};
use super::{CLAMP, Compared, GRPO, Numbers, PAPER, REFERENCE, SETS, TEMPO, TEXTBOOK, TRACE, VERIFIER};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{Shown, holds_or, list};
use grpo_lambda_trials::{Difference, Verdict as Effect};

/// The outcome of a prediction. A gain that is denied is refuted by a gain alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::experiments) enum Outcome {
    Held,
    Open,
    Failed,
}

impl Outcome {
    /// The outcome of "gains": it fails if the difference is lower or equivalent.
    pub(in crate::experiments) fn gains(effect: Effect) -> Outcome {
        match effect {
            Effect::Higher => Outcome::Held,
            Effect::Lower | Effect::Equivalent => Outcome::Failed,
            Effect::Inconclusive => Outcome::Open,
        }
    }

    /// The outcome of "does not gain": it fails if the difference is higher.
    pub(in crate::experiments) fn does_not_gain(effect: Effect) -> Outcome {
        match effect {
            Effect::Higher => Outcome::Failed,
            Effect::Lower | Effect::Equivalent => Outcome::Held,
            Effect::Inconclusive => Outcome::Open,
        }
    }

    /// The outcome of a prediction with two parts.
    pub(in crate::experiments) fn and(self, other: Outcome) -> Outcome {
        match [self, other] {
            [Outcome::Held, Outcome::Held] => Outcome::Held,
            both if both.contains(&Outcome::Failed) => Outcome::Failed,
            [_, _] => Outcome::Open,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Outcome::Held => "held",
            Outcome::Open => "open",
            Outcome::Failed => "failed",
        }
    }

    pub(in crate::experiments) fn verdict(self) -> Verdict {
        match self {
            Outcome::Held => Verdict::Holds,
            Outcome::Open => Verdict::Inconclusive("a comparison is inconclusive".into()),
            Outcome::Failed => Verdict::Fails("a comparison shows the opposite".into()),
        }
    }
}

/// Adds a comparison: its interval and its corrected p.
fn with(finding: Finding, n: &Numbers, [method, with]: [&str; 2], d: &Difference) -> Finding {
    let name = format!("{} minus {}", n.label(method), n.label(with));
    finding.interval(name.clone(), d.interval).value(format!("{name}: corrected p"), d.corrected)
}

/// The outcome of a part of a prediction by the reading of its comparison.
type Judge = fn(Effect) -> Outcome;

/// A prediction with the comparisons that decide it.
fn prediction(
    n: &Numbers,
    [key, statement]: [&'static str; 2],
    parts: &[([&str; 2], Judge)],
) -> Option<(Outcome, Finding)> {
    let found: Vec<([&str; 2], &Difference, Outcome)> = parts
        .iter()
        .map(|(pair, outcome)| {
            let difference = n.family(pair[0], pair[1])?;
            Some((*pair, difference, outcome(difference.verdict(n.study.margin))))
        })
        .collect::<Option<_>>()?;
    let outcome = found.iter().fold(Outcome::Held, |all, (_, _, outcome)| all.and(*outcome));
    let finding = Finding::new(key, statement, outcome.verdict());
    Some((outcome, found.into_iter().fold(finding, |f, (pair, d, _)| with(f, n, pair, d))))
}

/// The predictions from the second on; the first is the gate.
fn predictions(n: &Numbers) -> Option<Vec<(Outcome, Finding)>> {
    let (gains, not): (Judge, Judge) = (Outcome::gains, Outcome::does_not_gain);
    let all = [
        prediction(
            n,
            ["baseline", "P2: Verifier credit gains less with V than with b* as its baseline"],
            &[([VERIFIER, TEXTBOOK], gains)],
        ),
        prediction(n, ["trace", "P3: The trace alone does not gain over GRPO"], &[([TRACE, GRPO], not)]),
        prediction(
            n,
            [
                "clamp",
                "P4: GRPO with the clamp gains over GRPO, and GRPO-λ does not gain over GRPO with the clamp",
            ],
            &[([CLAMP, GRPO], gains), ([PAPER, CLAMP], not)],
        ),
        prediction(n, ["tempo", "P5: TEMPO does not gain over RLOO"], &[([TEMPO, REFERENCE], not)]),
    ];
    all.into_iter().collect()
}

/// The gate, which is the first prediction.
fn gate(n: &Numbers) -> Option<Finding> {
    n.gate().next()?;
    let statement = "P1: Verifier credit (Q - b*) has a higher mean accuracy over the budget than RLOO, and than the same credit at random steps";
    let verdict = holds_or(n.is_gate_passed(), "the gate is not passed, and no method is compared");
    let finding = Finding::new("gate", statement, verdict)
        .value("tokens of the budget", n.study.budget)
        .value("seeds", n.study.seeds.evaluation.len())
        .value("margin of equivalence", n.study.margin);
    let finding = n.gate().fold(finding, |finding, Compared { pair, difference, .. }| {
        let name = format!("{} minus {}", n.label(&pair.method), n.label(&pair.with));
        finding.interval(name, difference.interval)
    });
    let ends: Vec<&str> =
        n.methods.iter().filter(|m| n.is_at_an_end(m.rate)).map(|m| m.label.as_str()).collect();
    Some(finding.value("methods whose rate is an end of the grid", list(&ends)).note(
        "Mean held-out accuracy over the budget of sampled tokens, paired by seed, each method at the rate that other seeds chose, Student's t at 95 %.",
    ))
}

/// The finding on the number of predictions that held.
fn summary(n: &Numbers, found: &[(Outcome, Finding)]) -> Finding {
    let first = if n.is_gate_passed() { Outcome::Held } else { Outcome::Failed };
    let outcomes: Vec<Outcome> = [first].into_iter().chain(found.iter().map(|(o, _)| *o)).collect();
    let with = |wanted: Outcome| {
        let named = outcomes.iter().zip(1..).filter(|(outcome, _)| **outcome == wanted);
        let names: Vec<String> = named.map(|(_, k)| format!("P{k}")).collect();
        (!names.is_empty()).then(|| format!("{} {}", names.join(", "), wanted.name()))
    };
    let each = [Outcome::Held, Outcome::Open, Outcome::Failed].into_iter().filter_map(with);
    let each = each.collect::<Vec<_>>().join("; ");
    let held = outcomes.iter().filter(|outcome| **outcome == Outcome::Held).count();
    let verdict = match held {
        0 => Verdict::Fails("none does".into()),
        held if held == outcomes.len() => Verdict::Holds,
        _ => Verdict::HoldsWhen(format!("it is one of these: {each}")),
    };
    Finding::new("predictions", "The predictions that were committed before the runs hold", verdict)
        .value("held", held)
        .value("predictions", outcomes.len())
        .value("outcomes", each)
}

/// A gain that no prediction names. Where the sign flips show an effect and the interval does not, nothing is reported.
fn gain(n: &Numbers, [key, statement]: [&'static str; 2], pair: [&str; 2]) -> Option<Finding> {
    let d = n.family(pair[0], pair[1])?;
    let verdict = verdict_on_gain(d, d.verdict(n.study.margin), n.study.margin);
    Some(with(Finding::new(key, statement, verdict), n, pair, d))
}

/// The verdict on "gains" by the reading of a difference and by its interval.
pub(in crate::experiments) fn verdict_on_gain(d: &Difference, effect: Effect, margin: f64) -> Verdict {
    match (effect, Shown::by_interval(d.interval)) {
        (Effect::Equivalent, _) => Verdict::Fails(format!("the two are equivalent within {margin}")),
        (Effect::Higher, Shown::Gain) => Verdict::Holds,
        (Effect::Lower, Shown::Loss) => Verdict::Fails("it loses".into()),
        (Effect::Inconclusive, _) => Verdict::Inconclusive("no difference is shown".into()),
        (Effect::Higher | Effect::Lower, _) => {
            Verdict::Inconclusive("the sign flips show a difference and the interval does not".into())
        }
    }
}

fn gains(n: &Numbers) -> impl Iterator<Item = Finding> {
    [
        gain(n, ["textbook", "Textbook credit, Q - V from the verifier, gains over RLOO"], [TEXTBOOK, REFERENCE]),
        gain(
            n,
            ["against_clamp", "Verifier credit (Q - b*) gains over GRPO with the clamp, which assigns no credit within a response"],
            [VERIFIER, CLAMP],
        ),
        gain(n, ["paper", "GRPO-λ as published gains over GRPO"], [PAPER, GRPO]),
        gain(n, ["sets", "Systematic sets gain over RLOO"], [SETS, REFERENCE]),
    ]
    .into_iter()
    .flatten()
}

/// The noise of the updates of version 5's arms.
fn verifier_noise(n: &Numbers) -> Option<Finding> {
    let mut own = n.updates.iter().filter(|update| update.arm == EARLIER_VERIFIER).peekable();
    own.peek()?;
    let statement = "Verifier credit (Q - b*, version 5) has less noise than RLOO's update at the start, in the middle and at the end of a run";
    let verdict = holds_or(own.all(|update| update.noise_high < 1.0), "an interval reaches RLOO's");
    Some(
        Finding::new("verifier_noise", statement, verdict)
            .rows("updates", &["place", "arm", "seeds", "noise", "noise_low", "noise_high"])
            .only("arm", &[EARLIER_VERIFIER, EARLIER_TRACE, EARLIER_CLAMP, EARLIER_PERMUTED])
            .note("Noise over RLOO's, Student's t at 95 % over seeds."),
    )
}

/// The findings in their order; without a gate that is passed, the gate alone.
pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let Some(gate) = gate(n) else { return Vec::new() };
    let found = predictions(n).unwrap_or_default();
    let summary = (!found.is_empty()).then(|| {
        summary(n, &found)
            .note("Every comparison is in the table, Holm over the family.")
            .rows("compared", &[])
    });
    let judged = found.into_iter().map(|(_, finding)| finding);
    [gate].into_iter().chain(summary).chain(judged).chain(gains(n)).chain(verifier_noise(n)).collect()
}
