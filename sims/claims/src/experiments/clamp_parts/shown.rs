//! Findings, tables and figures.

use super::{APART, BEYOND, ByArm, CLAMP, Nested, Numbers, Outcome, PARTS};
use crate::experiment::Finding;
use crate::experiments::common::claim::{Claim, claim};
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{Shown, gains_everywhere, placed, short};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::Table;
use grpo_lambda_trials::Difference;
use serde::{Deserialize, Serialize};

/// The places of the arms.
const REWEIGHTING: usize = 1;
const OFFSET: usize = 2;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![at_nested_rates(n), helps(n), parts(n), beyond(n), tabular(n), divergence(n)]
}

/// Shows these columns of some arms in every cell.
fn showing(finding: Finding, arms: &[usize], columns: &[&str]) -> Finding {
    let arms: Vec<&str> = arms.iter().map(|&arm| PARTS[arm].name()).collect();
    finding.rows("", &[&["optimiser", "rate", "part"], columns].concat()).only("part", &arms)
}

/// The columns of a gain.
const GAIN: [&str; 4] = ["gain", "gain_low", "gain_high", "p_holm"];

/// Reads the corrected p.
fn shown_by(gain: &Difference) -> Shown {
    Shown::by_p(gain.interval.mid, gain.corrected)
}

fn place(c: &Outcome) -> String {
    format!("{} at {}", c.optimiser, short(c.rate))
}

/// The gain of an arm in every cell, after Holm's correction, with the numbers of cells in which it gains and loses.
fn shown(n: &Numbers, arm: usize) -> (Vec<Shown>, [usize; 2]) {
    let shown: Vec<Shown> = n.cells.iter().map(|c| shown_by(&c.gain[arm])).collect();
    let counts = [Shown::Gain, Shown::Loss].map(|which| which.count(&shown));
    (shown, counts)
}

fn helps(n: &Numbers) -> Finding {
    let (shown, [up, down]) = shown(n, CLAMP);
    let gaining = n.cells.iter().zip(&shown).filter(|(_, s)| **s == Shown::Gain);
    let places: Vec<String> = gaining.map(|(c, _)| place(c)).collect();
    let all = n.cells.len();
    let verdict = gains_everywhere(
        &shown,
        format!(
            "the setting is {} ({up} of {all} settings after Holm's correction); with the clamp it solves fewer \
             in {down} settings",
            places.join(" or ")
        ),
        format!("it does in none of {all} settings after Holm's correction, and solves fewer in {down}"),
    );
    let statement = "The transformer solves more additions with the clamp than with GRPO at every learning rate, \
        under SGD and under AdamW";
    showing(claim("helps", statement).verdict(verdict), &[CLAMP], &GAIN)
        .value("cells", all)
        .value("cells with a gain", up)
        .value("paired seeds", n.seeds)
        .value("share solved at the start", n.start[0])
        .note("Share of the hundred training problems that the most probable response solves, minus GRPO's; an answer that cannot be graded is wrong.")
}

/// The finding on gains at the rates that the other seeds choose, all of which are said to be there under every optimiser. It shows those with
/// these names.
fn at_chosen_rates(
    n: &Numbers,
    claim: Claim,
    gains: &[usize],
    counterexample: &str,
    names: &[&str],
) -> Finding {
    let worst = |o: &Nested| gains.iter().map(|&k| shown_by(&o.gains[k])).max().unwrap_or(Shown::Neither);
    let shown: Vec<Shown> = n.nested.iter().map(worst).collect();
    let gaining = n.nested.iter().zip(&shown).filter(|(_, s)| **s == Shown::Gain);
    let optimisers: Vec<&str> = gaining.map(|(o, _)| o.optimiser.as_str()).collect();
    claim
        .verdict(gains_everywhere(
            &shown,
            format!("the optimiser is {}", optimisers.join(" or ")),
            counterexample,
        ))
        .rows("overall", &[&["optimiser", "gain_of"], &GAIN[..]].concat())
        .only("gain_of", names)
}

/// Adds the number of seeds, and that of the tests over which the p are corrected.
fn tested(finding: Finding, n: &Numbers, tests: usize) -> Finding {
    finding.value("paired seeds", n.seeds).value("tests corrected for", tests)
}

fn at_nested_rates(n: &Numbers) -> Finding {
    let statement = "If each seed's learning rate is chosen on the other seeds, the transformer solves more \
        additions with the clamp than with GRPO, under SGD and under AdamW";
    let neither = "it does under neither optimiser after Holm's correction";
    let claim = claim("at_nested_rates", statement);
    let finding = at_chosen_rates(n, claim, &[CLAMP - 1], neither, &[PARTS[CLAMP].name()]);
    let finding = finding.each(&n.nested, |finding, o| {
        finding
            .value(format!("{}: GRPO", o.optimiser), o.accuracy[0])
            .value(format!("{}: the clamp", o.optimiser), o.accuracy[CLAMP])
    });
    tested(finding, n, n.nested.len())
        .note("Share of the hundred training problems that the most probable response solves, and its gain. Rates are chosen on the other seeds, for each arm; p is of sign flips. This comparison was fixed after the runs had been seen.")
}

fn parts(n: &Numbers) -> Finding {
    let statement = "The clamp helps by its contrast within a group, which re-weights prompts: with the contrast \
        alone the transformer solves more than with GRPO or the offset alone";
    let neither = "under neither optimiser is the contrast shown to be better than both GRPO and the offset";
    let names = [PARTS[REWEIGHTING].name(), PARTS[OFFSET].name(), OTHERS[1]];
    let finding = at_chosen_rates(n, claim("parts", statement), &[REWEIGHTING - 1, APART], neither, &names);
    let finding = finding.each([REWEIGHTING, OFFSET], |finding, arm| {
        let (_, [more, less]) = shown(n, arm);
        let name = PARTS[arm].name();
        finding.value(format!("{name}, cells with a gain"), more).value(format!("{name}, with a loss"), less)
    });
    tested(finding, n, 3 * n.nested.len()).value("cells", n.cells.len()).note(format!(
        "The difference of the parts is corrected over {} tests; cells have Holm's correction.",
        n.nested.len()
    ))
}

fn beyond(n: &Numbers) -> Finding {
    let claim = claim(
        "beyond",
        "The improvement by the whole clamp is larger than the sum of the improvements by its \
            two parts",
    );
    let neither = "not shown under either optimiser after Holm's correction";
    tested(at_chosen_rates(n, claim, &[BEYOND], neither, &[OTHERS[0]]), n, 3 * n.nested.len())
}

/// The clamp's gain in the tabular version at the same multiple of the reference rate.
fn in_tabular(n: &Numbers, c: &Outcome) -> Option<f64> {
    let same = n.tabular.iter().find(|(o, ratio, _)| *o == c.optimiser && (ratio - c.ratio).abs() < 1e-9);
    same.map(|(_, _, gain)| gain.mid)
}

fn tabular(n: &Numbers) -> Finding {
    let pairs: Vec<(&Outcome, f64)> = n.cells.iter().filter_map(|c| Some((c, in_tabular(n, c)?))).collect();
    let same = |(c, tabular): &&(&Outcome, f64)| (c.gain[CLAMP].interval.mid > 0.0) == (*tabular > 0.0);
    let agree = pairs.iter().filter(same).count();
    let statement = "At each multiple of the best learning rate the policy with shared parameters of \
        `clamp_gain` predicts whether the clamp helps the transformer";
    let detail = format!("the predicted sign is right in {agree} of {} settings", pairs.len());
    claim("tabular", statement)
        .holds_or(agree == pairs.len() && !pairs.is_empty(), detail)
        .value("settings", pairs.len())
        .value("settings with the same sign in both", agree)
        .each(&pairs, |finding, (c, tabular)| finding.value(format!("tabular, {}", place(c)), tabular))
        .note("The gain of the tabular version is that of `clamp_gain` with the shared network, in area; a coin would agree in half of the cells.")
}

fn divergence(n: &Numbers) -> Finding {
    let less = n.cells.iter().filter(|c| c.kl[CLAMP] < c.kl[0]).count();
    let finding = claim(
        "divergence",
        "The clamp keeps the policy nearer to the start policy, in mean log π/π_start over the tokens that it \
         samples",
    )
    .holds_when(
        less == n.cells.len(),
        2 * less > n.cells.len(),
        format!("in {less} of {} settings", n.cells.len()),
        format!("only in {less} of {} settings", n.cells.len()),
    );
    showing(finding, &[0, CLAMP], &["kl", "entropy", "grad_norm"])
        .note("Divergence and entropy in nats per token.")
}

fn row(c: &Outcome, arm: usize, seeds: usize) -> Record {
    let level = |level: ByArm| Some(level[arm]).filter(|x| x.is_finite());
    Record::default()
        .with("optimiser", c.optimiser.as_str())
        .with("rate", c.rate)
        .with("rate_over_best_of_grpo", c.ratio)
        .with("part", PARTS[arm].name())
        .with("seeds", seeds)
        .with("accuracy", level(c.accuracy))
        .interval("gain", c.gain[arm].interval)
        .with("p", c.gain[arm].p)
        .with("p_holm", c.gain[arm].corrected)
        .with("sampled", level(c.sampled))
        .with("ungradable", level(c.ungradable))
        .with("entropy", level(c.entropy))
        .with("kl", level(c.kl))
        .with("grad_norm", level(c.grad_norm))
}

/// A row of `clamp_parts_overall.csv`: every seed at the rate that the other seeds choose.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct GainRow {
    pub(crate) optimiser: String,
    pub(crate) gain_of: String,
    pub(crate) gain: f64,
    pub(crate) gain_low: f64,
    pub(crate) gain_high: f64,
    p: f64,
    pub(crate) p_holm: f64,
}

/// Comparisons other than those of the parts.
pub(super) const OTHERS: [&str; 2] = ["both beyond the sum of the parts", "re-weighting minus the offset"];

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let rows = n.cells.iter().flat_map(|c| (0..PARTS.len()).map(|arm| row(c, arm, n.seeds)));
    let overall = n.nested.iter().flat_map(|o| {
        let names = PARTS[1..].iter().map(|part| part.name()).chain(OTHERS);
        names.zip(&o.gains).map(|(gain_of, gain)| {
            let Interval { low, mid, high, .. } = gain.interval;
            let (optimiser, gain_of) = (o.optimiser.clone(), gain_of.to_owned());
            let (p, p_holm) = (gain.p, gain.corrected);
            GainRow { optimiser, gain_of, gain: mid, gain_low: low, gain_high: high, p, p_holm }
        })
    });
    vec![(String::new(), table(rows)), ("overall".into(), Table::from_rows(overall))]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let gained = |o: &Nested| format!("{:+.3} ({})", o.gains[CLAMP - 1].interval.mid, o.optimiser);
    let mut figure = Figure::new(format!(
        "Addition: at rates chosen on other seeds the clamp changes the share of solved problems by {}",
        n.nested.iter().map(gained).collect::<Vec<_>>().join(" and ")
    ))
    .caption(format!(
        "A transformer after a little imitation, single-digit addition, {} paired seeds. Top: share of the 100 problems that the most probable response solves, minus GRPO's, \
         at each rate and where every seed has the rate that the others choose; bars: Student's t, 95 %, not corrected. Bottom: that share itself, mean over seeds; none is GRPO.",
        n.seeds
    ))
    .columns(2)
    .panel_size(440, 260)
    .names(PARTS.iter().map(|part| part.name()));
    for panel in [gains, levels] {
        for o in &n.nested {
            let cells: Vec<&Outcome> = n.cells.iter().filter(|c| c.optimiser == o.optimiser).collect();
            figure = figure.panel(panel(o, &cells));
        }
    }
    vec![(String::new(), figure)]
}

fn rates(cells: &[&Outcome]) -> impl Iterator<Item = String> {
    cells.iter().map(|c| short(c.rate))
}

fn gains(o: &Nested, cells: &[&Outcome]) -> Panel {
    let places = rates(cells).chain(["chosen".to_owned()]);
    let panel = Panel::new(format!("{}: gain over GRPO", o.optimiser))
        .x(Axis::new("learning rate").categories(places))
        .y("gain in solved problems");
    let arms = PARTS.iter().enumerate().skip(1);
    let drawn = arms.fold(panel, |panel, (arm, part)| {
        let by_rate = cells.iter().map(|c| c.gain[arm].interval).chain([o.gains[arm - 1].interval]);
        let aside = 0.2 * (arm as f64 - 2.0);
        panel.intervals(part.name(), by_rate.enumerate().map(|(k, gain)| placed(k as f64 + aside, gain)))
    });
    drawn.hline(0.0, "GRPO")
}

fn levels(o: &Nested, cells: &[&Outcome]) -> Panel {
    let panel = Panel::new(format!("{}: solved problems", o.optimiser))
        .x(Axis::new("learning rate").log())
        .y("share of problems solved");
    PARTS.iter().enumerate().fold(panel, |panel, (arm, part)| {
        let points = || cells.iter().map(|c| (c.rate, c.accuracy[arm]));
        panel.styled_line(part.name(), Style::Solid, points()).points(part.name(), points())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;
    use grpo_lambda_stats::Interval;

    fn numbers(gains: [f64; 4], p_holm: f64, kl: f64, tabular: f64) -> Numbers {
        let at = |mid: f64| Interval { low: mid - 0.01, mid, high: mid + 0.01, level: 0.95 };
        let difference = |mid: f64| {
            let interval = at(mid);
            Difference { values: vec![mid; 2], interval, narrow: interval, p: p_holm, corrected: p_holm }
        };
        let cell = |optimiser: &str| Outcome {
            optimiser: optimiser.into(),
            rate: 1.0,
            ratio: 1.0,
            gain: gains.map(difference).to_vec(),
            kl: [0.5, 0.5, 0.5, kl],
            ..Outcome::default()
        };
        let (beyond, apart) = (gains[3] - gains[2] - gains[1], gains[1] - gains[2]);
        let all = [gains[1], gains[2], gains[3], beyond, apart];
        let nested = |optimiser: &str| Nested {
            optimiser: optimiser.into(),
            gains: all.map(difference),
            accuracy: gains.map(|g| 0.5 + g),
        };
        Numbers {
            nested: ["SGD", "AdamW"].map(nested).to_vec(),
            cells: ["SGD", "AdamW"].map(cell).to_vec(),
            seeds: 12,
            start: [0.2; 2],
            tabular: ["SGD", "AdamW"].map(|o| (o.to_owned(), 1.0, at(tabular))).to_vec(),
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers([0.0, 0.2, 0.05, 0.3], 0.001, 0.3, 0.1)), ["Holds"; 6]);
        assert_eq!(verdicts(numbers([0.0, 0.05, 0.2, -0.2], 0.001, 0.7, 0.1)), ["Fails"; 6]);
        let unclear = verdicts(numbers([0.0, 0.2, 0.05, 0.3], 0.2, 0.3, 0.1));
        assert_eq!(
            unclear,
            ["Inconclusive", "Inconclusive", "Inconclusive", "Inconclusive", "Holds", "Holds"]
        );
        let mut equal = numbers([0.0, 0.2, 0.05, 0.3], 0.001, 0.3, 0.1);
        equal.nested.iter_mut().for_each(|o| o.gains[APART].corrected = 0.2);
        assert_eq!(verdicts(equal)[2], "Inconclusive", "both parts gain, and neither is shown to gain more");
        let mut doubtful = numbers([0.0, 0.2, 0.05, 0.3], 0.001, 0.3, 0.1);
        doubtful.cells[0].gain.iter_mut().for_each(|g| g.corrected = 0.2);
        doubtful.nested[0].gains.iter_mut().for_each(|g| g.corrected = 0.2);
        let half = verdicts(doubtful);
        assert_eq!(half[..4], ["Holds when"; 4]);
    }
}
