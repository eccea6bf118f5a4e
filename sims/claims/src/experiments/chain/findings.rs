//! The gate, and the protocol's predictions where it is passed.

use super::updates::Update;
use super::{Arm, Compared, GRPO, MARGIN, Numbers, ORACLE, REFERENCE, Reading, exponential, longer};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{Shown, finding, holds_or, ratio, within_range};
use grpo_lambda_stats::Interval;

/// The names of arms in the protocol.
pub(crate) const TRACE: &str = "lambda_mean1";
const UNCLAMPED: &str = "lambda_free";
const PAPER: &str = "lambda_paper";
pub(crate) const CLAMP: &str = "grpo_clamp";
const VINE: &str = "vine_ppo";
const PREFIX_VALUES: [&str; 2] = ["tempo", "prefix_rloo"];
const SETS: &str = "systematic_rloo";
/// The names of cells.
const SINGLE: &str = "single";
const MIXED: &str = "mixed";
const CHECKS: [&str; 2] = ["useful", "harmful"];

/// The name of an arm for readers.
pub(super) fn label(arm: &str) -> &str {
    match arm {
        "rloo" => "RLOO",
        ORACLE => "exact credit",
        super::ANTI => "exact, misplaced",
        GRPO => "GRPO",
        PAPER => "GRPO-λ as published",
        UNCLAMPED => "GRPO-λ, no clamp",
        TRACE => "trace, mean weight 1",
        CLAMP => "GRPO and clamp",
        VINE => "VinePPO",
        "prefix_rloo" => "Prefix RLOO",
        "tempo" => "TEMPO",
        "p_trace" => "P-trace (recon.)",
        SETS => "systematic sets",
        "critic" => "learned critic",
        other => other,
    }
}

/// The share of the oracle's gain that would show that the trace assigns credit.
const SHARE: f64 = 0.25;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let of_tokens =
        [gate(n), same_as_grpo(n), share(n), curriculum(n), check_line(n), prefix_values(n), paid(n)];
    let of_updates = [trace_update(n), prefix_noise(n), systematic_noise(n)];
    of_tokens.into_iter().chain(of_updates).flatten().collect()
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

fn gate(n: &Numbers) -> Option<Finding> {
    let gate = n.gate()?;
    let verdict = match gate.is_passed() {
        true => Verdict::Holds,
        false => Verdict::NotTold(format!(
            "the oracle needs {:.3} of RLOO's tokens and the anti-oracle {:.3}: by the protocol's own gate the experiment is void, and no arm is compared",
            gate.oracle.mid, gate.anti_oracle.mid
        )),
    };
    let cell = n.cells.first()?;
    let missed = |name: &str| cell.arm(name).map_or(0, Arm::missed);
    Some(finding(
        "Exact credit needs at most half of RLOO's tokens in the mean over pairs on chains of eight operations, and the same credit at other steps at least as many",
        verdict,
        format!(
            "tokens to an accuracy of {} over RLOO's, geometric mean over those of {} paired seeds on which one of the two reached it, at the rate that other seeds chose, Student's t at 95 % (protocol version {}). Oracle {} over {} seeds, anti-oracle {} over {}; runs that did not reach it: {} of RLOO, {} of the oracle, {} of the anti-oracle",
            n.protocol.exam.target,
            cell.arm(ORACLE)?.runs.len(),
            n.protocol.version,
            ratio(gate.oracle),
            gate.pairs[0],
            ratio(gate.anti_oracle),
            gate.pairs[1],
            missed(REFERENCE),
            missed(ORACLE),
            missed(super::ANTI)
        ),
    ))
}

/// Equivalence by the narrow interval; a whole interval outside is a difference.
fn equivalence(c: &Compared) -> Verdict {
    let (margin, said) = (MARGIN.ln(), ratio_of(c));
    if c.narrow.low >= -margin && c.narrow.high <= margin {
        Verdict::Holds
    } else if c.interval.high < -margin || c.interval.low > margin {
        Verdict::Fails(said)
    } else {
        Verdict::NotTold(format!("{said} reaches beyond 10 %"))
    }
}

/// P1, tokens.
fn same_as_grpo(n: &Numbers) -> Option<Finding> {
    let cell = n.cell(SINGLE)?;
    let compared = cell.compare(TRACE, GRPO)?;
    let others = [UNCLAMPED, PAPER].iter().filter_map(|arm| Some((arm, cell.compare(arm, GRPO)?)));
    let others: Vec<String> = others.map(|(arm, c)| format!("{}: {}", label(arm), ratio_of(&c))).collect();
    Some(finding(
        "GRPO-λ without the clamp, its weights scaled to a mean of 1, needs as many tokens as GRPO, within 10 %",
        equivalence(&compared),
        format!("tokens over GRPO's: {}. {}", ratio_of(&compared), others.join("; ")),
    ))
}

/// P1, the share of what there is to gain.
fn share(n: &Numbers) -> Option<Finding> {
    let cell = n.cell(SINGLE)?;
    let own = cell.share_of_headroom(TRACE)?;
    let verdict = if own.low > 0.0 && own.mid >= SHARE {
        Verdict::Holds
    } else if own.high < SHARE {
        Verdict::Fails(format!("it takes {} of it", ratio(own)))
    } else {
        Verdict::NotTold(format!("{} holds 0 or {SHARE}", ratio(own)))
    };
    let others = [UNCLAMPED, PAPER, CLAMP].iter().filter_map(|arm| Some((arm, cell.share_of_headroom(arm)?)));
    let others: Vec<String> = others.map(|(arm, i)| format!("{}: {}", label(arm), ratio(i))).collect();
    Some(finding(
        "The trace takes at least a quarter of what exact credit gains over GRPO",
        verdict,
        format!(
            "share of the oracle's gain in the logarithm of tokens, percentile bootstrap over seeds at 95 %: {}. {}",
            ratio(own),
            others.join("; ")
        ),
    ))
}

/// P2.
fn curriculum(n: &Numbers) -> Option<Finding> {
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
    Some(finding(
        "The clamp gains on chains of mixed lengths, with the trace and without, and not on chains of one length",
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
    /// Tokens of a response at the end, less GRPO's.
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
fn check_line(n: &Numbers) -> Option<Finding> {
    let [useful, harmful] = CHECKS.map(|name| CheckLine::in_cell(n, name));
    let (useful, harmful) = (useful?, harmful?);
    let said = format!("useful: {}; harmful: {}", useful.said(), harmful.said());
    Some(finding(
        "GRPO-λ as published writes the optional line more often than GRPO, which helps where the line is useful and hurts where it is harmful",
        on_check_lines(&useful, &harmful, &said),
        format!("tokens over GRPO's. {said}"),
    ))
}

/// P4, tokens.
fn prefix_values(n: &Numbers) -> Option<Finding> {
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
    Some(finding(
        "TEMPO and prefix RLOO need no fewer tokens than RLOO",
        verdict,
        format!("tokens over RLOO's, p before correction. {}", each.collect::<Vec<_>>().join("; ")),
    ))
}

/// P6.
fn paid(n: &Numbers) -> Option<Finding> {
    let cell = n.cell(SINGLE)?;
    let arm = cell.arm(VINE)?;
    let compared = arm.over_reference.as_ref()?;
    let critic = cell.arm("critic").and_then(|arm| arm.over_reference.as_ref()).map(ratio_of);
    let verdict = match arm.reading()? {
        Reading::Fewer => Verdict::Holds,
        Reading::NotTold => Verdict::NotTold(ratio_of(compared)),
        Reading::More | Reading::Equivalent => Verdict::Fails(ratio_of(compared)),
    };
    Some(finding(
        "VinePPO with two completions of every prefix, their tokens charged, needs fewer tokens than RLOO",
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

fn places(n: &Numbers, arm: &str, number: fn(&Update) -> String) -> String {
    at(n, arm).map(|u| format!("{} {}", u.place, number(u))).collect::<Vec<_>>().join(", ")
}

/// P1, the update.
fn trace_update(n: &Numbers) -> Option<Finding> {
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
    ask(1.0, &after, "the credit behind the error over that before it");
    let said = format!(
        "at the start, in the middle and at the end of a run with RLOO, mean over {seeds} seeds: cosine with the gradient over GRPO's {}; noise over GRPO's {}; size of a wrong response's credit behind its first error over that before it {} (GRPO {})",
        list(&cosines),
        list(&noises),
        list(&after),
        list(&pairs.iter().map(|(_, b)| b.after_over_before).collect::<Vec<_>>())
    );
    Some(finding(
        "The trace's update has at least 0.9 of GRPO's cosine with the gradient and no less noise, and its credit behind the first error is as large as before it",
        holds_or(failing.is_empty(), failing.join("; ")),
        said,
    ))
}

/// P4, the noise.
fn prefix_noise(n: &Numbers) -> Option<Finding> {
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
    Some(finding(
        "TEMPO and prefix RLOO keep at least 0.97 of the noise of RLOO's update",
        verdict,
        format!(
            "noise over RLOO's, Student's t at 95 % over seeds. {}. Exact credit: {}",
            numbers.join("; "),
            places(n, ORACLE, |u| ratio(u.noise))
        ),
    ))
}

/// P5.
fn systematic_noise(n: &Numbers) -> Option<Finding> {
    let noise: Vec<(&str, Interval)> = at(n, SETS).map(|u| (u.place.as_str(), u.noise)).collect();
    (!noise.is_empty()).then(|| {
        finding(
            "Systematic groups keep 0.9 to 0.98 of the noise of RLOO's update on chains, as the bits law predicts",
            within_range(&noise, [0.9, 0.98]),
            format!("noise over RLOO's, Student's t at 95 % over seeds: {}", places(n, SETS, |u| ratio(u.noise))),
        )
    })
}
