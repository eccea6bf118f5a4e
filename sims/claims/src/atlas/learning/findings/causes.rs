//! Quantities that go with the gains of GRPO-lambda over tasks.

use crate::atlas::learning::measure::Ranking;
use crate::atlas::learning::why::{Correlation, MEASURED, QUANTITIES, READINGS, Regime};
use crate::atlas::learning::words::{correlations, said};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::findings::finding;
use crate::experiments::common::text::list;

/// The quantities known before training.
pub(super) fn explained(r: &Ranking) -> Finding {
    let before = |c: &&Correlation| !MEASURED.contains(&QUANTITIES[c.quantity].name);
    let all: Vec<&Correlation> = correlations(r, Regime::Tuned).filter(before).collect();
    let yes: Vec<String> = all.iter().filter(|c| c.explains()).map(|c| said(c)).collect();
    let no: Vec<String> = all.iter().filter(|c| !c.explains()).map(|c| said(c)).collect();
    let verdict = if yes.is_empty() {
        Verdict::Fails("no exact quantity of the first update goes with the gain".into())
    } else {
        Verdict::HoldsWhen(format!("by {}", yes.join("; ")))
    };
    finding(
        format!(
            "Exact quantities of the update, known before training, say on which tasks {} gains, each at its own best rate",
            READINGS[0]
        ),
        verdict,
        format!(
            "Spearman's correlation over {} tasks with its 95 % interval, permutation p corrected over quantities. Explain: {}. Do not: {}",
            all.first().map_or(0, |c| c.tasks),
            list(&yes),
            list(&no)
        ),
    )
}

/// Quantities at equal rates, and the clamp's own gain.
pub(super) fn by_hindsight(r: &Ranking) -> Finding {
    let of =
        |regime: Regime, name: &str| correlations(r, regime).find(|c| QUANTITIES[c.quantity].name == name);
    let step = of(Regime::Cautious, "log2_step");
    let others = [
        ("each at its best", of(Regime::Tuned, "clamp_gain")),
        ("each at its best", of(Regime::Tuned, "final_gain")),
        ("at a sixteenth of GRPO's best rate", of(Regime::Cautious, "cosine")),
        ("at GRPO's best rate", of(Regime::Equal, "log2_step")),
        ("at GRPO's best rate", of(Regime::Equal, "cosine")),
    ];
    let text: Vec<String> =
        others.into_iter().filter_map(|(at, c)| Some(format!("{at}: {}", said(c?)))).collect();
    let numbers = format!(
        "at a sixteenth of GRPO's best rate: {}; {}",
        step.map_or(String::from("unknown"), said),
        text.join("; ")
    );
    finding(
        format!(
            "At a small equal rate the gain of {} goes with the length of its step over tasks",
            READINGS[0]
        ),
        match step {
            Some(c) if c.explains() && c.rho.mid > 0.0 => Verdict::Holds,
            Some(c) => Verdict::Fails(said(c)),
            None => Verdict::Fails("unknown".into()),
        },
        numbers,
    )
}
