//! The findings.

use super::{APART, BEYOND, CLAMP, Nested, Numbers, Outcome, PARTS};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::claim::claim;
use crate::experiments::common::{Shown, gains_everywhere, short};
use grpo_lambda_trials::Difference;

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

/// The verdict on gains that are said to be there, all of them, under every optimiser.
fn under_all(n: &Numbers, gains: &[usize], counterexample: &str) -> Verdict {
    let under = |o: &Nested| {
        let shown: Vec<Shown> = gains.iter().map(|&k| shown_by(&o.gains[k])).collect();
        let worst = [Shown::Loss, Shown::Neither].into_iter().find(|s| shown.contains(s));
        worst.unwrap_or(Shown::Gain)
    };
    let shown: Vec<Shown> = n.nested.iter().map(under).collect();
    let gaining = n.nested.iter().zip(&shown).filter(|(_, s)| **s == Shown::Gain);
    let names: Vec<&str> = gaining.map(|(o, _)| o.optimiser.as_str()).collect();
    gains_everywhere(&shown, names.join(", "), counterexample)
}

fn place(c: &Outcome) -> String {
    format!("{} at {}", c.optimiser, short(c.rate))
}

/// The gain of an arm in every cell, after Holm's correction.
fn shown(n: &Numbers, arm: usize) -> Vec<Shown> {
    n.cells.iter().map(|c| shown_by(&c.gain[arm])).collect()
}

/// The numbers of cells in which an arm gains, and loses.
fn counts(shown: &[Shown]) -> [usize; 2] {
    [Shown::Gain, Shown::Loss].map(|which| which.count(shown))
}

fn helps(n: &Numbers) -> Finding {
    let shown = shown(n, CLAMP);
    let [up, down] = counts(&shown);
    let gaining = n.cells.iter().zip(&shown).filter(|(_, s)| **s == Shown::Gain);
    let places: Vec<String> = gaining.map(|(c, _)| place(c)).collect();
    let finding = Finding::new(
        "helps",
        "With clamped advantages the transformer solves more additions than with GRPO at every learning rate, under SGD and under AdamW",
        gains_everywhere(
            &shown,
            format!(
                "{}; {up} of {} settings after Holm's correction; it solves fewer in {down}",
                places.join(", "),
                n.cells.len()
            ),
            format!(
                "in none of {} settings after Holm's correction; it solves fewer in {down}",
                n.cells.len()
            ),
        ),
    );
    showing(finding, &[CLAMP], &GAIN)
        .value("cells", n.cells.len())
        .value("cells with a gain", up)
        .value("paired seeds", n.seeds)
        .value("share solved at the start", n.start[0])
        .note("Share of the hundred training problems that the most probable response solves, minus GRPO's; an answer that cannot be graded is wrong.")
}

/// Reads the corrected p.
fn shown_by(gain: &Difference) -> Shown {
    Shown::by_p(gain.interval.mid, gain.corrected)
}

/// Shows some gains at the rates that the other seeds choose, whose p are corrected over so many tests.
fn at_chosen_rates(finding: Finding, n: &Numbers, gains: &[&str], tests: usize) -> Finding {
    finding
        .rows("overall", &[&["optimiser", "gain_of"], &GAIN[..]].concat())
        .only("gain_of", gains)
        .value("paired seeds", n.seeds)
        .value("tests corrected for", tests)
}

fn at_nested_rates(n: &Numbers) -> Finding {
    let finding = Finding::new(
        "at_nested_rates",
        "With clamped advantages the transformer solves more additions than with GRPO if each seed's learning rate is chosen on the other seeds, under SGD and under AdamW",
        under_all(n, &[CLAMP - 1], "under neither after Holm's correction"),
    );
    let finding = n.nested.iter().fold(finding, |finding, o| {
        finding
            .value(format!("{}: GRPO", o.optimiser), o.accuracy[0])
            .value(format!("{}: the clamp", o.optimiser), o.accuracy[CLAMP])
    });
    at_chosen_rates(finding, n, &[PARTS[CLAMP].name()], n.nested.len())
        .note("Share of the hundred training problems that the most probable response solves, and its gain. Rates are chosen on the other seeds, for each arm; p is of sign flips. This comparison was fixed after the runs had been seen.")
}

fn parts(n: &Numbers) -> Finding {
    let finding = Finding::new(
        "parts",
        "The clamp gains by its contrast within a group, which re-weights prompts: this part alone gains, and more than the offset alone",
        under_all(
            n,
            &[REWEIGHTING - 1, APART],
            "no optimiser shows both: that the contrast gains, and that it gains more than the offset",
        ),
    );
    let finding = [REWEIGHTING, OFFSET].into_iter().fold(finding, |finding, arm| {
        let [more, less] = counts(&shown(n, arm));
        let name = PARTS[arm].name();
        finding.value(format!("{name}, cells with a gain"), more).value(format!("{name}, with a loss"), less)
    });
    let names = [PARTS[REWEIGHTING].name(), PARTS[OFFSET].name(), super::shown::OTHERS[1]];
    at_chosen_rates(finding, n, &names, 3 * n.nested.len()).value("cells", n.cells.len()).note(format!(
        "The difference of the parts is corrected over {} tests; cells have Holm's correction.",
        n.nested.len()
    ))
}

fn beyond(n: &Numbers) -> Finding {
    let finding = Finding::new(
        "beyond",
        "Together the two parts gain more than the sum of what each gains alone",
        under_all(n, &[BEYOND], "not shown under either optimiser after Holm's correction"),
    );
    at_chosen_rates(finding, n, &[super::shown::OTHERS[0]], 3 * n.nested.len())
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
    let finding = claim("tabular", "The tabular version of the task predicts the sign of the clamp's gain at each multiple of the best rate").holds_or(agree == pairs.len() && !pairs.is_empty(), format!("in {agree} of {} settings", pairs.len()))
    .value("cells", pairs.len())
    .value("cells of one sign", agree);
    pairs
        .iter()
        .fold(finding, |finding, (c, tabular)| finding.value(format!("tabular, {}", place(c)), tabular))
        .note("The gain of the tabular version is that of `clamp_gain` with the shared network, in area; a coin would agree in half of the cells.")
}

fn divergence(n: &Numbers) -> Finding {
    let less = n.cells.iter().filter(|c| c.kl[CLAMP] < c.kl[0]).count();
    let finding = claim(
        "divergence",
        "The clamp keeps the policy nearer to the start (mean log π/π_start of its own tokens)",
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
        let last = |x: f64| [0.5, 0.5, 0.5, x];
        let cell = |optimiser: &str| Outcome {
            optimiser: optimiser.into(),
            rate: 1.0,
            ratio: 1.0,
            solved: Default::default(),
            accuracy: gains.map(|g| 0.5 + g),
            gain: gains.map(difference).to_vec(),
            sampled: last(0.5),
            ungradable: last(0.0),
            entropy: last(1.0),
            kl: last(kl),
            grad_norm: last(1.0),
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
