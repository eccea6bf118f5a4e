//! The protocol's predictions, each part a finding; they are drawn only behind a gate that is passed.

use super::compare::{Compared, exponential};
use super::rows::UpdateRow;
use super::{Arm, CLAMP, GRPO, MARGIN, Numbers, ORACLE, Reading, SETS, SINGLE, TRACE, longer};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{Shown, holds_or, within_range};
use grpo_lambda_stats::Interval;

/// The names of arms in the protocol.
const UNCLAMPED: &str = "lambda_free";
const PAPER: &str = "lambda_paper";
const VINE: &str = "vine_ppo";
const PREFIX_VALUES: [&str; 2] = ["tempo", "prefix_rloo"];
/// The names of cells.
const MIXED: &str = "mixed";
const CHECKS: [&str; 2] = ["useful", "harmful"];

/// The name of an arm for readers.
pub(crate) fn label(arm: &str) -> &str {
    match arm {
        super::REFERENCE => "RLOO",
        ORACLE => "verifier credit",
        super::ANTI => "permuted credit",
        GRPO => "GRPO",
        PAPER => "GRPO-λ as published",
        UNCLAMPED => "GRPO-λ, no clamp",
        TRACE => "trace, mean weight 1",
        CLAMP => "GRPO with the clamp",
        VINE => "VinePPO",
        "prefix_rloo" => "Prefix RLOO",
        "tempo" => "TEMPO",
        "p_trace" => "P-trace (recon.)",
        SETS => "systematic sets",
        "critic" => "learned critic",
        other => other,
    }
}

/// Adds a comparison of tokens: the geometric mean of their ratio over pairs, the pairs on which each arm missed the target, which
/// makes it a bound, and the p-value before correction.
pub(super) fn with_tokens(finding: Finding, name: &str, compared: &Compared) -> Finding {
    finding
        .interval(format!("{name}: tokens"), exponential(compared.ratio.interval))
        .value(format!("{name}: pairs"), compared.pairs())
        .value(format!("{name}: missed"), compared.missed)
        .value(format!("{name}: p"), compared.ratio.p)
}

/// Equivalence by the narrow interval; a whole interval outside is a difference.
fn equivalence(c: &Compared) -> Verdict {
    let margin = MARGIN.ln();
    if c.ratio.narrow.low >= -margin && c.ratio.narrow.high <= margin {
        Verdict::Holds
    } else if c.ratio.interval.high < -margin || c.ratio.interval.low > margin {
        Verdict::Fails("the whole interval lies beyond 10 %".into())
    } else {
        Verdict::NotTold("the interval reaches beyond 10 %".into())
    }
}

/// The meaning of the ratio of the trace's tokens to GRPO's for the protocol's falsifier, which asks for a gain.
fn refuted(compared: &Compared) -> &'static str {
    match Shown::by_interval(compared.ratio.interval) {
        Shown::Loss => "fewer tokens than GRPO's are shown",
        Shown::Gain => "the trace is shown to need more tokens",
        Shown::Neither => "no effect of the trace on tokens is shown",
    }
}

/// P1, tokens.
pub(super) fn same_as_grpo(n: &Numbers) -> Option<Finding> {
    let cell = n.cell(SINGLE)?;
    let compared = cell.compare(TRACE, GRPO)?;
    let statement = "P1: GRPO-λ without the clamp, its weights scaled to a mean of 1, needs as many tokens as GRPO, within 10 %";
    let finding = Finding::new("same_as_grpo", statement, equivalence(&compared));
    let arms =
        [TRACE, UNCLAMPED, PAPER].iter().filter_map(|arm| Some((label(arm), cell.compare(arm, GRPO)?)));
    let finding = arms.fold(finding, |finding, (name, c)| with_tokens(finding, name, &c));
    Some(finding.note(format!(
        "Tokens over GRPO's. The protocol would have called the prediction refuted if the trace \"takes at least 25 % of the oracle's headroom, with an interval above 0\"; {}.",
        refuted(&compared)
    )))
}

/// P2.
pub(super) fn curriculum(n: &Numbers) -> Option<Finding> {
    let gains_in = |cell: &str| {
        let cell = n.cell(cell)?;
        Some([cell.compare(CLAMP, GRPO)?, cell.compare(PAPER, UNCLAMPED)?])
    };
    let (single, mixed) = (gains_in(SINGLE)?, gains_in(MIXED)?);
    let gains = |c: &Compared| c.ratio.interval.high < 0.0;
    let absent = single.iter().all(|c| matches!(equivalence(c), Verdict::Holds));
    let verdict = match (mixed.iter().all(gains), absent, single.iter().any(gains)) {
        (true, true, _) => Verdict::Holds,
        (_, _, true) => Verdict::Fails("it gains where all chains are as long".into()),
        (_, _, false) => Verdict::NotTold("an interval holds no effect".into()),
    };
    let statement = "P2: The clamp gains on chains of mixed lengths, with the trace and without, and not on chains of one length";
    let finding =
        Finding::new("curriculum", statement, verdict).note("Tokens with the clamp over those without.");
    let cells = [("mixed lengths", &mixed), ("one length", &single)];
    Some(cells.into_iter().fold(finding, |finding, (cell, [without, with])| {
        let finding = with_tokens(finding, &format!("{cell}, without the trace"), without);
        with_tokens(finding, &format!("{cell}, with it"), with)
    }))
}

/// A cell with an optional line: what GRPO-λ as published does there, compared with GRPO.
pub(super) struct CheckLine {
    /// Tokens of a response at the end, minus GRPO's.
    pub(super) longer: Interval,
    pub(super) tokens: Compared,
}

impl CheckLine {
    fn in_cell(n: &Numbers, name: &str) -> Option<CheckLine> {
        let cell = n.cell(name)?;
        Some(CheckLine {
            longer: longer(cell.arm(PAPER)?, cell.arm(GRPO)?)?,
            tokens: cell.compare(PAPER, GRPO)?,
        })
    }
}

/// The verdict on P3: it holds only where lengths and tokens show it, and fails where one of them shows the opposite.
pub(super) fn on_check_lines(useful: &CheckLine, harmful: &CheckLine) -> Verdict {
    let longer = [useful, harmful].map(|cell| Shown::by_interval(cell.longer));
    // A gain is one in tokens: they are to fall where the line is useful.
    match [useful, harmful].map(|cell| Shown::by_interval(cell.tokens.ratio.interval)) {
        [Shown::Loss, Shown::Gain] if longer == [Shown::Gain; 2] => Verdict::Holds,
        [useful, harmful]
            if useful == Shown::Gain || harmful == Shown::Loss || longer.contains(&Shown::Loss) =>
        {
            Verdict::Fails("tokens or lengths move the other way".into())
        }
        [..] => Verdict::NotTold("an interval holds no effect on tokens or on lengths".into()),
    }
}

/// P3.
pub(super) fn check_line(n: &Numbers) -> Option<Finding> {
    let [useful, harmful] = CHECKS.map(|name| CheckLine::in_cell(n, name));
    let (useful, harmful) = (useful?, harmful?);
    let statement = "P3: GRPO-λ as published writes the optional line more often than GRPO, which helps where the line is useful and hurts where it is harmful";
    let finding = Finding::new("check_line", statement, on_check_lines(&useful, &harmful));
    let finding = CHECKS.into_iter().zip([useful, harmful]).fold(finding, |finding, (name, line)| {
        with_tokens(finding, name, &line.tokens)
            .interval(format!("{name}: tokens longer at the end"), line.longer)
    });
    Some(finding.note("Tokens over GRPO's."))
}

/// P4, tokens.
pub(super) fn prefix_values(n: &Numbers) -> Option<Finding> {
    let cell = n.cell(SINGLE)?;
    let arms: Vec<&Arm> = PREFIX_VALUES.iter().map(|name| cell.arm(name)).collect::<Option<_>>()?;
    let names = |wanted: fn(&&&Arm) -> bool| {
        arms.iter().filter(wanted).map(|a| label(&a.name)).collect::<Vec<_>>().join(", ")
    };
    let faster = names(|a| a.reading() == Some(Reading::Lower));
    // An interval that reaches beyond the margin of equality does not show that an arm needs no fewer.
    let open = names(|a| a.over_reference.as_ref().is_none_or(|c| c.ratio.narrow.low < -MARGIN.ln()));
    let verdict = match (faster.is_empty(), open.is_empty()) {
        (false, _) => Verdict::Fails(format!("{faster} needs fewer")),
        (true, false) => Verdict::NotTold(format!(
            "none is shown to need fewer; the 90 % interval of {open} reaches below the margin of equality"
        )),
        (true, true) => Verdict::Holds,
    };
    let finding =
        Finding::new("prefix_values", "P4: TEMPO and prefix RLOO need no fewer tokens than RLOO", verdict);
    Some(over_reference(finding, &arms).note("Tokens over RLOO's."))
}

fn over_reference(finding: Finding, arms: &[&Arm]) -> Finding {
    arms.iter().fold(finding, |finding, arm| match &arm.over_reference {
        Some(compared) => with_tokens(finding, label(&arm.name), compared),
        None => finding,
    })
}

/// P6.
pub(super) fn paid(n: &Numbers) -> Option<Finding> {
    let cell = n.cell(SINGLE)?;
    let arm = cell.arm(VINE)?;
    let verdict = match arm.reading()? {
        Reading::Lower => Verdict::Holds,
        Reading::Inconclusive => Verdict::NotTold("the interval holds no effect".into()),
        Reading::Higher | Reading::Equivalent => Verdict::Fails("it does not".into()),
    };
    let statement = "P6: VinePPO with two completions of every prefix, their tokens charged, needs fewer tokens than RLOO";
    let arms: Vec<&Arm> = [Some(arm), cell.arm("critic")].into_iter().flatten().collect();
    let finding = over_reference(Finding::new("paid", statement, verdict), &arms);
    Some(finding.note("Tokens over RLOO's. The critic learned on past rollouts; it is outside the family."))
}

fn at<'a>(n: &'a Numbers, arm: &'a str) -> impl Iterator<Item = &'a UpdateRow> {
    n.updates.iter().filter(move |u| u.arm == arm)
}

/// Shows the noise of some arms' updates.
pub(super) fn showing_noise(finding: Finding, arms: &[&str]) -> Finding {
    finding
        .rows("updates", &["place", "arm", "seeds", "noise", "noise_low", "noise_high"])
        .only("arm", arms)
        .note("Noise over RLOO's, Student's t at 95 % over seeds.")
}

/// P1, the update.
pub(super) fn trace_update(n: &Numbers) -> Option<Finding> {
    let pairs: Vec<(&UpdateRow, &UpdateRow)> = at(n, TRACE).zip(at(n, GRPO)).collect();
    let seeds = pairs.first()?.0.seeds;
    let cosine = |(trace, grpo): &(&UpdateRow, &UpdateRow)| trace.cosine / grpo.cosine;
    let noise = |(trace, grpo): &(&UpdateRow, &UpdateRow)| trace.noise / grpo.noise;
    let after = |(trace, _): &(&UpdateRow, &UpdateRow)| trace.credit_after_over_before;
    let failing = [
        (pairs.iter().any(|pair| cosine(pair) < 0.9), "the cosine over GRPO's"),
        (pairs.iter().any(|pair| noise(pair) < 1.0), "the noise over GRPO's"),
        (pairs.iter().any(|pair| after(pair) < 1.0), "the credit after the error over that before it"),
    ];
    let failing: Vec<&str> = failing.into_iter().filter(|(fails, _)| *fails).map(|(_, what)| what).collect();
    let statement = "P1: The trace's update has at least 0.9 of GRPO's cosine with the gradient and no less noise, and its credit after the first error is as large as before it";
    let verdict = holds_or(failing.is_empty(), format!("too low is {}", failing.join(", ")));
    let finding = Finding::new("trace_update", statement, verdict).value("seeds", seeds);
    let finding = pairs.iter().fold(finding, |finding, pair| {
        let place = &pair.0.place;
        finding
            .value(format!("{place}: cosine over GRPO's"), cosine(pair))
            .value(format!("{place}: noise over GRPO's"), noise(pair))
            .value(format!("{place}: credit after the first error over that before it"), after(pair))
            .value(format!("{place}: GRPO's"), pair.1.credit_after_over_before)
    });
    Some(finding.note("At three places of a run with RLOO; the credit is that of wrong responses."))
}

/// P4, the noise.
pub(super) fn prefix_noise(n: &Numbers) -> Option<Finding> {
    at(n, PREFIX_VALUES[0]).next()?;
    let own = || PREFIX_VALUES.iter().flat_map(|arm| at(n, arm));
    let verdict = match (own().any(|u| u.noise_high < 0.97), own().any(|u| u.noise_low < 0.97)) {
        (true, _) => Verdict::Fails("an interval lies below 0.97".into()),
        (false, true) => Verdict::NotTold("an interval reaches below 0.97".into()),
        (false, false) => Verdict::Holds,
    };
    let statement = "P4: TEMPO and prefix RLOO keep at least 0.97 of the noise of RLOO's update";
    Some(showing_noise(Finding::new("prefix_noise", statement, verdict), &PREFIX_VALUES))
}

/// P5.
pub(super) fn systematic_noise(n: &Numbers) -> Option<Finding> {
    let noise: Vec<(&str, Interval)> = at(n, SETS).map(|u| (u.place.as_str(), u.noise())).collect();
    let statement = "P5: Systematic groups keep 0.9 to 0.98 of the noise of RLOO's update on chains, as the bits law predicts";
    let finding = Finding::new("systematic_noise", statement, within_range(&noise, [0.9, 0.98]));
    (!noise.is_empty()).then(|| showing_noise(finding, &[SETS]))
}
