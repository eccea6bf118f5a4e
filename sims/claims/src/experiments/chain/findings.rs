//! The protocol's predictions, each part a finding; they are drawn only behind a gate that is passed.

use super::compare::{Compared, Reading, exponential};
use super::updates::Update;
use super::{Arm, CLAMP, GRPO, MARGIN, Numbers, ORACLE, SETS, SINGLE, TRACE, longer};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{Shown, holds_or, keyed, ratio, within_range};
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

pub(super) fn ratio_of(c: &Compared) -> String {
    let missed = match c.missed {
        [0, 0] => String::new(),
        [own, 0] => format!(" (a lower bound, it missed the target on {own})"),
        [0, other] => format!(" (an upper bound, the other missed the target on {other})"),
        [own, other] => format!(" (it missed the target on {own}, the other on {other})"),
    };
    format!("{} over {} pairs{missed}, p = {:.4}", ratio(exponential(c.interval)), c.pairs, c.p)
}

/// Equivalence by the narrow interval; a whole interval outside is a difference.
fn equivalence(c: &Compared) -> Verdict {
    let (margin, said) = (MARGIN.ln(), ratio_of(c));
    if c.narrow.low >= -margin && c.narrow.high <= margin {
        Verdict::Holds
    } else if c.interval.high < -margin || c.interval.low > margin {
        Verdict::Fails(said)
    } else {
        Verdict::NotTold(format!("{said}: the interval reaches beyond 10 %"))
    }
}

/// The meaning of the ratio of the trace's tokens to GRPO's for the protocol's falsifier, which asks for a gain.
fn refuted(compared: &Compared) -> &'static str {
    match Shown::by_interval(compared.interval) {
        Shown::Loss => "fewer tokens than GRPO's are shown",
        Shown::Gain => "the trace is shown to need more tokens",
        Shown::Neither => "no effect of the trace on tokens is shown",
    }
}

/// P1, tokens.
pub(super) fn same_as_grpo(n: &Numbers) -> Option<Finding> {
    let cell = n.cell(SINGLE)?;
    let compared = cell.compare(TRACE, GRPO)?;
    let others = [UNCLAMPED, PAPER].iter().filter_map(|arm| Some((arm, cell.compare(arm, GRPO)?)));
    let others: Vec<String> = others.map(|(arm, c)| format!("{}: {}", label(arm), ratio_of(&c))).collect();
    Some(keyed(
        "same_as_grpo",
        "P1: GRPO-λ without the clamp, its weights scaled to a mean of 1, needs as many tokens as GRPO, within 10 %",
        equivalence(&compared),
        format!(
            "tokens over GRPO's: {}. {}. The protocol would have called the prediction refuted if the trace \"takes at least 25 % of the oracle's headroom, with an interval above 0\"; {}",
            ratio_of(&compared),
            others.join("; "),
            refuted(&compared)
        ),
    ))
}

/// P2.
pub(super) fn curriculum(n: &Numbers) -> Option<Finding> {
    let gains_in = |cell: &str| {
        let cell = n.cell(cell)?;
        Some([cell.compare(CLAMP, GRPO)?, cell.compare(PAPER, UNCLAMPED)?])
    };
    let (single, mixed) = (gains_in(SINGLE)?, gains_in(MIXED)?);
    let gains = |c: &Compared| c.interval.high < 0.0;
    let absent = single.iter().all(|c| matches!(equivalence(c), Verdict::Holds));
    let said = |[without, with]: &[Compared; 2]| {
        format!("{} without the trace, {} with it", ratio_of(without), ratio_of(with))
    };
    let verdict = match (mixed.iter().all(gains), absent, single.iter().any(gains)) {
        (true, true, _) => Verdict::Holds,
        (_, _, true) => Verdict::Fails(format!("it gains where all chains are as long: {}", said(&single))),
        _ => Verdict::NotTold(format!("mixed lengths {}; one length {}", said(&mixed), said(&single))),
    };
    Some(keyed(
        "curriculum",
        "P2: The clamp gains on chains of mixed lengths, with the trace and without, and not on chains of one length",
        verdict,
        format!(
            "tokens with the clamp over those without. Mixed lengths: {}. One length: {}",
            said(&mixed),
            said(&single)
        ),
    ))
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

    fn said(&self) -> String {
        let i = self.longer;
        let longer = format!("{:+.1} ({:+.1} to {:+.1}) tokens longer at the end", i.mid, i.low, i.high);
        format!("{}, {longer}", ratio_of(&self.tokens))
    }
}

/// The verdict on P3: it holds only where lengths and tokens show it, and fails where one of them shows the opposite.
pub(super) fn on_check_lines(useful: &CheckLine, harmful: &CheckLine, said: &str) -> Verdict {
    let longer = [useful, harmful].map(|cell| Shown::by_interval(cell.longer));
    // A gain is one in tokens: they are to fall where the line is useful.
    match [useful, harmful].map(|cell| Shown::by_interval(cell.tokens.interval)) {
        [Shown::Loss, Shown::Gain] if longer == [Shown::Gain; 2] => Verdict::Holds,
        [useful, harmful]
            if useful == Shown::Gain || harmful == Shown::Loss || longer.contains(&Shown::Loss) =>
        {
            Verdict::Fails(said.into())
        }
        _ => Verdict::NotTold("an interval holds no effect on tokens or on lengths".into()),
    }
}

/// P3.
pub(super) fn check_line(n: &Numbers) -> Option<Finding> {
    let [useful, harmful] = CHECKS.map(|name| CheckLine::in_cell(n, name));
    let (useful, harmful) = (useful?, harmful?);
    let said = format!("useful: {}; harmful: {}", useful.said(), harmful.said());
    Some(keyed(
        "check_line",
        "P3: GRPO-λ as published writes the optional line more often than GRPO, which helps where the line is useful and hurts where it is harmful",
        on_check_lines(&useful, &harmful, &said),
        format!("tokens over GRPO's. {said}"),
    ))
}

/// P4, tokens.
pub(super) fn prefix_values(n: &Numbers) -> Option<Finding> {
    let cell = n.cell(SINGLE)?;
    let arms: Vec<&Arm> = PREFIX_VALUES.iter().map(|name| cell.arm(name)).collect::<Option<_>>()?;
    let names = |wanted: fn(&&&Arm) -> bool| {
        let found: Vec<&str> = arms.iter().filter(wanted).map(|a| label(&a.name)).collect();
        found.join(", ")
    };
    let faster = names(|a| a.reading() == Some(Reading::Fewer));
    // An interval that reaches beyond the margin of equality does not show that an arm needs no fewer.
    let open = names(|a| a.over_reference.as_ref().is_none_or(|c| c.narrow.low < -MARGIN.ln()));
    let verdict = match (faster.is_empty(), open.is_empty()) {
        (false, _) => Verdict::Fails(format!("{faster} needs fewer")),
        (true, false) => Verdict::NotTold(format!(
            "none is shown to need fewer; the 90 % interval of {open} reaches below the margin of equality"
        )),
        (true, true) => Verdict::Holds,
    };
    let each = arms
        .iter()
        .filter_map(|a| Some(format!("{}: {}", label(&a.name), ratio_of(a.over_reference.as_ref()?))));
    Some(keyed(
        "prefix_values",
        "P4: TEMPO and prefix RLOO need no fewer tokens than RLOO",
        verdict,
        format!("tokens over RLOO's, p before correction. {}", each.collect::<Vec<_>>().join("; ")),
    ))
}

/// P6.
pub(super) fn paid(n: &Numbers) -> Option<Finding> {
    let cell = n.cell(SINGLE)?;
    let arm = cell.arm(VINE)?;
    let compared = arm.over_reference.as_ref()?;
    let critic = cell.arm("critic").and_then(|arm| arm.over_reference.as_ref()).map(ratio_of);
    let verdict = match arm.reading()? {
        Reading::Fewer => Verdict::Holds,
        Reading::NotTold => Verdict::NotTold(ratio_of(compared)),
        Reading::More | Reading::Equivalent => Verdict::Fails(ratio_of(compared)),
    };
    Some(keyed(
        "paid",
        "P6: VinePPO with two completions of every prefix, their tokens charged, needs fewer tokens than RLOO",
        verdict,
        format!(
            "tokens over RLOO's, p before correction by Holm: {}. A critic learned on past rollouts, outside the family: {}",
            ratio_of(compared),
            critic.unwrap_or_else(|| "not yet run".into())
        ),
    ))
}

fn at<'a>(n: &'a Numbers, arm: &'a str) -> impl Iterator<Item = &'a Update> {
    n.updates.iter().filter(move |u| u.arm == arm)
}

pub(super) fn places(n: &Numbers, arm: &str, number: fn(&Update) -> String) -> String {
    at(n, arm).map(|u| format!("{} {}", u.place, number(u))).collect::<Vec<_>>().join(", ")
}

/// P1, the update.
pub(super) fn trace_update(n: &Numbers) -> Option<Finding> {
    let pairs: Vec<(&Update, &Update)> = at(n, TRACE).zip(at(n, GRPO)).collect();
    let seeds = pairs.first()?.0.seeds;
    let cosines: Vec<f64> = pairs.iter().map(|(a, b)| a.cosine.mid / b.cosine.mid).collect();
    let noises: Vec<f64> = pairs.iter().map(|(a, b)| a.noise.mid / b.noise.mid).collect();
    let after: Vec<f64> = pairs.iter().map(|(a, _)| a.after_over_before).collect();
    let list = |all: &[f64]| all.iter().map(|x| format!("{x:.2}")).collect::<Vec<_>>().join(", ");
    let mut failing = Vec::new();
    let mut ask = |least: f64, all: &[f64], what: &str| {
        let worst = all.iter().copied().fold(f64::INFINITY, f64::min);
        if worst < least {
            failing.push(format!("{what} falls to {worst:.2}"));
        }
    };
    ask(0.9, &cosines, "the cosine over GRPO's");
    ask(1.0, &noises, "the noise over GRPO's");
    ask(1.0, &after, "the credit after the error over that before it");
    let said = format!(
        "at the start, in the middle and at the end of a run with RLOO, mean over {seeds} seeds: cosine with the gradient over GRPO's {}; noise over GRPO's {}; size of a wrong response's credit after its first error over that before it {} (GRPO {})",
        list(&cosines),
        list(&noises),
        list(&after),
        list(&pairs.iter().map(|(_, b)| b.after_over_before).collect::<Vec<_>>())
    );
    Some(keyed(
        "trace_update",
        "P1: The trace's update has at least 0.9 of GRPO's cosine with the gradient and no less noise, and its credit after the first error is as large as before it",
        holds_or(failing.is_empty(), failing.join("; ")),
        said,
    ))
}

/// P4, the noise.
pub(super) fn prefix_noise(n: &Numbers) -> Option<Finding> {
    at(n, PREFIX_VALUES[0]).next()?;
    let own = || PREFIX_VALUES.iter().flat_map(|arm| at(n, arm));
    let named = |u: &Update| format!("{} at the {}: {}", label(&u.arm), u.place, ratio(u.noise));
    let below: Vec<String> = own().filter(|u| u.noise.high < 0.97).map(named).collect();
    let open: Vec<String> = own().filter(|u| u.noise.low < 0.97).map(named).collect();
    let verdict = match (below.is_empty(), open.is_empty()) {
        (false, _) => Verdict::Fails(below.join("; ")),
        (true, false) => Verdict::NotTold(format!("an interval reaches below 0.97: {}", open.join("; "))),
        (true, true) => Verdict::Holds,
    };
    let numbers = PREFIX_VALUES.map(|arm| format!("{}: {}", label(arm), places(n, arm, |u| ratio(u.noise))));
    Some(keyed(
        "prefix_noise",
        "P4: TEMPO and prefix RLOO keep at least 0.97 of the noise of RLOO's update",
        verdict,
        format!("noise over RLOO's, Student's t at 95 % over seeds. {}", numbers.join("; ")),
    ))
}

/// P5.
pub(super) fn systematic_noise(n: &Numbers) -> Option<Finding> {
    let noise: Vec<(&str, Interval)> = at(n, SETS).map(|u| (u.place.as_str(), u.noise)).collect();
    (!noise.is_empty()).then(|| {
        keyed("systematic_noise",
            "P5: Systematic groups keep 0.9 to 0.98 of the noise of RLOO's update on chains, as the bits law predicts",
            within_range(&noise, [0.9, 0.98]),
            format!("noise over RLOO's, Student's t at 95 % over seeds: {}", places(n, SETS, |u| ratio(u.noise))),
        )
    })
}
