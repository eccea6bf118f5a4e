//! The findings.

use super::measure::{ARMS, CLAMPED, Kind, LEARNED, OFFSET, REWEIGHTING, WEIGHTS};
use super::{Nested, Numbers, Outcome, RATIOS, RUNS};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{
    Shown, finding, gains_everywhere, holds_or, interval, largest, percent, short,
};

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![helps(n), nested(n), parts(n), weights(n), shared(n), offset(n), solved(n)]
}

pub(super) fn cells(n: &Numbers, shared: bool, kind: Kind) -> Vec<&Outcome> {
    n.cells.iter().filter(|c| c.shared == shared && c.kind == kind).collect()
}

fn said(cell: &Outcome, arm: usize) -> String {
    interval(cell.gain[arm])
}

fn place(cell: &Outcome) -> String {
    format!("{}, {}, {} of the best rate", policy(cell.shared), cell.kind.name(), cell.ratio)
}

/// An arm's gain at every rate.
fn row(n: &Numbers, shared: bool, kind: Kind, arm: usize) -> String {
    let gain = |c: &&Outcome| format!("{}: {}", c.ratio, said(c, arm));
    cells(n, shared, kind).iter().map(gain).collect::<Vec<_>>().join(", ")
}

/// An arm's gain at every rate, under both optimisers.
fn rows(n: &Numbers, shared: bool, arm: usize) -> String {
    format!("SGD: {}; AdamW: {}", row(n, shared, Kind::Sgd, arm), row(n, shared, Kind::AdamW, arm))
}

/// The weight by arm of a prompt at success rate `p`.
fn weights_at(n: &Numbers, p: f64) -> [f64; ARMS.len()] {
    n.weights.iter().find(|(q, _)| (q - p).abs() < 1e-9).map_or([f64::NAN; ARMS.len()], |(_, w)| *w)
}

/// The fewest updates until J is 0.8 over the rates, of GRPO and of the clamp: a mean over runs where all get there.
fn fewest(n: &Numbers, kind: Kind) -> String {
    let said = |arm: usize| {
        let all = cells(n, true, kind);
        let reached = |c: &&Outcome| c.learned[arm].iter().flatten().count();
        match all.iter().filter_map(|c| c.updates_to_learned(arm)).reduce(f64::min) {
            Some(updates) => format!("{updates:.0}"),
            None => match all.iter().map(reached).max() {
                Some(runs) if runs > 0 => format!("reached by {runs} of {RUNS} runs"),
                _ => "not reached".into(),
            },
        }
    };
    format!("{} and {}", said(0), said(CLAMPED))
}

/// The rate over which the rates of some policies are given.
pub(super) fn best_of_grid(n: &Numbers, policies: &[bool]) -> String {
    let place = |o: &Nested| format!("{}, {}", policy(o.shared), o.kind.name());
    let at_edge = n.nested.iter().filter(|o| o.best.at_edge && policies.contains(&o.shared));
    let ends: Vec<String> = at_edge.map(place).collect();
    let ends = if ends.is_empty() { String::new() } else { format!(" (an end of it: {})", ends.join("; ")) };
    format!("GRPO's best of a grid{ends}")
}

fn policy(shared: bool) -> &'static str {
    if shared { "shared" } else { "table" }
}

fn of_clamp(cell: &Outcome) -> Shown {
    Shown::by_p(cell.gain[CLAMPED].mid, cell.p_holm)
}

fn helps(n: &Numbers) -> Finding {
    let all: Vec<&Outcome> = n.cells.iter().filter(|c| c.shared).collect();
    let shown: Vec<Shown> = all.iter().map(|c| of_clamp(c)).collect();
    let no = Shown::Loss.count(&shown);
    let yes = all.iter().filter(|c| of_clamp(c) == Shown::Gain);
    let list = yes.map(|c| place(c)).collect::<Vec<_>>().join("; ");
    let worst = all.iter().min_by(|a, b| a.gain[CLAMPED].mid.total_cmp(&b.gain[CLAMPED].mid));
    finding(
        "The clamp helps a policy that answers many prompts from shared parameters",
        gains_everywhere(
            &shown,
            format!("{list}; it hurts in {no} of {} cells", all.len()),
            format!(
                "it helps in none of {} cells after Holm's correction and hurts in {no}, the least gain at {}",
                all.len(),
                worst.map_or(String::new(), |c| format!("{}: {}", place(c), said(c, CLAMPED)))
            ),
        ),
        format!(
            "mean J over the updates (area) less GRPO's, {RUNS} paired runs of {} updates, start J = 0.4, {} learning rates over {}. SGD: {}. AdamW: {}. Updates until J = {LEARNED}, at the rate with the fewest, GRPO and the clamp: SGD {}, AdamW {}",
            n.updates,
            RATIOS.len(),
            best_of_grid(n, &[true]),
            row(n, true, Kind::Sgd, CLAMPED),
            row(n, true, Kind::AdamW, CLAMPED),
            fewest(n, Kind::Sgd),
            fewest(n, Kind::AdamW)
        ),
    )
}

/// The settings with a policy where every run has the rate that the others choose.
fn at_nested(n: &Numbers, shared: bool) -> Vec<&Nested> {
    n.nested.iter().filter(|o| o.shared == shared).collect()
}

/// The verdict on an arm that is said to gain under every optimiser with shared parameters.
fn of_optimisers(n: &Numbers, arm: usize) -> Verdict {
    let all = at_nested(n, true);
    let shown: Vec<Shown> = all.iter().map(|o| Shown::by_interval(o.gain[arm])).collect();
    let gaining = all.iter().zip(&shown).filter(|(_, s)| **s == Shown::Gain);
    let names: Vec<&str> = gaining.map(|(o, _)| o.kind.name()).collect();
    gains_everywhere(&shown, names.join(", "), "no interval lies above 0")
}

fn nested(n: &Numbers) -> Finding {
    let list = |shared: bool| {
        let one = |o: &&Nested| {
            let edge = match (o.at_edge[0], o.at_edge[CLAMPED]) {
                (true, true) => " (both best rates are ends of those tried)",
                (true, false) => " (GRPO's best rate is an end of those tried)",
                (false, true) => " (the clamp's best rate is an end of those tried)",
                (false, false) => "",
            };
            format!("{} {}{edge}", o.kind.name(), interval(o.gain[CLAMPED]))
        };
        at_nested(n, shared).iter().map(one).collect::<Vec<_>>().join(", ")
    };
    finding(
        "With shared parameters the clamp also gains where every run has the rate that the other runs choose, for the clamp and for GRPO",
        of_optimisers(n, CLAMPED),
        format!(
            "area less GRPO's. Shared parameters: {}. Table with the same start: {}",
            list(true),
            list(false)
        ),
    )
}

/// The clamp's weights without its contrast and offset.
fn weights(n: &Numbers) -> Finding {
    let share = |arm: usize| weights_at(n, 0.9)[arm] / weights_at(n, 0.9)[0];
    let list = |o: &&Nested| {
        let gains = [WEIGHTS, CLAMPED, REWEIGHTING, OFFSET]
            .map(|arm| format!("{} {}", ARMS[arm].name, interval(o.gain[arm])));
        format!("{}: {}", o.kind.name(), gains.join(", "))
    };
    finding(
        "The clamp's own weights of prompts alone, GRPO's advantages times the ratio of expected updates, gain where prompts share parameters",
        of_optimisers(n, WEIGHTS),
        format!(
            "area less GRPO's at rates chosen on the other runs. {}. A prompt solved nine times in ten keeps {} of its weight under the clamp and under its weights, {} under re-weighting only",
            at_nested(n, true).iter().map(list).collect::<Vec<_>>().join(". "),
            percent(share(CLAMPED)),
            percent(share(REWEIGHTING))
        ),
    )
}

fn parts(n: &Numbers) -> Finding {
    let shared: Vec<&Outcome> = n.cells.iter().filter(|c| c.shared).collect();
    let rms = |arm: usize| {
        (shared.iter().map(|c| c.gain[arm].mid.powi(2)).sum::<f64>() / shared.len() as f64).sqrt()
    };
    let rest = shared
        .iter()
        .map(|c| (c.gain[CLAMPED].mid - c.gain[REWEIGHTING].mid - c.gain[OFFSET].mid).powi(2))
        .sum::<f64>();
    let numbers = format!(
        "root mean square over {} cells of the effect on the area: re-weighting {}, offset {}, both {}, what does not add up {}. Re-weighting only, {}. Offset only, {}",
        shared.len(),
        short(rms(REWEIGHTING)),
        short(rms(OFFSET)),
        short(rms(CLAMPED)),
        short((rest / shared.len() as f64).sqrt()),
        rows(n, true, REWEIGHTING),
        rows(n, true, OFFSET)
    );
    finding(
        "What the clamp does it does by re-weighting prompts: that part moves the area more than the offset does",
        holds_or(
            rms(REWEIGHTING) > rms(OFFSET),
            format!("re-weighting {}, offset {}", short(rms(REWEIGHTING)), short(rms(OFFSET))),
        ),
        numbers,
    )
}

fn shared(n: &Numbers) -> Finding {
    let pairs: Vec<(&Outcome, &Outcome)> = Kind::ALL
        .into_iter()
        .flat_map(|kind| cells(n, true, kind).into_iter().zip(cells(n, false, kind)))
        .collect();
    let more = pairs.iter().filter(|(s, t)| s.gain[CLAMPED].mid > t.gain[CLAMPED].mid).count();
    let most = |shared: bool| {
        let area = |c: &&Outcome| c.areas[0].iter().sum::<f64>() / c.areas[0].len() as f64;
        largest(cells(n, shared, Kind::Sgd).iter().map(area))
    };
    let shown: Vec<Shown> = pairs
        .iter()
        .map(|(s, t)| match (s.gain[CLAMPED], t.gain[CLAMPED]) {
            (s, t) if s.low > t.high => Shown::Gain,
            (s, t) if s.high < t.low => Shown::Loss,
            _ => Shown::Neither,
        })
        .collect();
    let apart = Shown::Gain.count(&shown);
    finding(
        "The clamp gains more where prompts share parameters than in a table with the same start",
        gains_everywhere(
            &shown,
            format!(
                "the interval is above the table's in {apart} of {} cells; the mean is greater in {more}",
                pairs.len()
            ),
            format!(
                "no interval is above the table's; the mean is greater in {more} of {} cells",
                pairs.len()
            ),
        ),
        format!(
            "the clamp's gain in the table, at rates over {}, {}. GRPO's greatest mean area over the rates is {:.3} with shared parameters and {:.3} in the table, under SGD: the table has little left to gain at its best rates",
            best_of_grid(n, &[false]),
            rows(n, false, CLAMPED),
            most(true),
            most(false)
        ),
    )
}

fn offset(n: &Numbers) -> Finding {
    let moved = largest(n.weights.iter().map(|(_, w)| (w[OFFSET] - w[0]).abs()));
    let [low, half, high] = [0.1, 0.5, 0.9].map(|p| weights_at(n, p));
    finding(
        "The offset of the clamp has no effect on average: it pushes up whatever was sampled",
        holds_or(
            moved < 1e-12,
            format!(
                "it re-weights prompts, too, since it depends on how many are right: at success rate 0.1, 0.5 and 0.9 it changes the multiple of ∇p from {:.3}, {:.3}, {:.3} to {:.3}, {:.3}, {:.3}",
                low[0], half[0], high[0], low[OFFSET], half[OFFSET], high[OFFSET]
            ),
        ),
        format!("exact, G = 8; largest change of the multiple {}", short(moved)),
    )
}

fn solved(n: &Numbers) -> Finding {
    let share = |p: f64| weights_at(n, p)[CLAMPED] / weights_at(n, p)[0];
    let [start_low, start_mid, start_high] = n.start;
    let falls =
        n.weights.windows(2).all(|w| w[1].1[CLAMPED] / w[1].1[0] <= w[0].1[CLAMPED] / w[0].1[0] + 1e-12);
    finding(
        "The more often a prompt is solved, the less of its weight the clamp leaves: a curriculum towards unsolved prompts",
        holds_or(falls, "the share of the weight that is left rises somewhere"),
        format!(
            "share of the expected update left at success rate 0.02, 0.5, 0.9, 0.98: {:.3}, {:.3}, {:.3}, {:.3}; quartiles of the success rates at the start: {start_low:.2}, {start_mid:.2}, {start_high:.2}",
            share(0.02),
            share(0.5),
            share(0.9),
            share(0.98)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::Best;
    use super::*;
    use crate::experiments::common::words;
    use grpo_lambda_stats::Interval;

    fn numbers(gains: [f64; ARMS.len()], table: f64, p: f64, weights: [f64; 2]) -> Numbers {
        let at = |mid: f64| Interval { low: mid - 0.01, mid, high: mid + 0.01, level: 0.95 };
        let cell = |(shared, kind)| Outcome {
            shared,
            kind,
            ratio: 1.0,
            rate: 1.0,
            areas: Default::default(),
            last: [0.5; ARMS.len()],
            learned: std::array::from_fn(|_| vec![None; 2]),
            gain: if shared { gains.map(at) } else { [0.0, 0.0, 0.0, table, 0.0].map(at) },
            p,
            p_holm: p,
        };
        let all = [true, false].into_iter().flat_map(|shared| Kind::ALL.map(|kind| (shared, kind)));
        Numbers {
            nested: Kind::ALL
                .map(|kind| Nested {
                    shared: true,
                    kind,
                    gain: gains.map(at),
                    at_edge: [false; ARMS.len()],
                    best: Best { rate: 1.0, at_edge: false },
                })
                .to_vec(),
            cells: all.map(cell).collect(),
            updates: 1,
            start: [0.0; 3],
            weights: vec![
                (0.1, [1.0, 1.0, weights[0], 0.9, 0.9]),
                (0.5, [1.0, 1.0, 1.0, weights[1], weights[1]]),
            ],
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers([0.0, 0.2, 0.05, 0.2, 0.1], 0.0, 0.001, [1.0, 0.5])), ["Holds"; 7]);
        assert_eq!(verdicts(numbers([0.0, 0.05, 0.2, -0.2, -0.1], 0.1, 0.001, [1.5, 0.95])), ["Fails"; 7]);
        // A gain that does not survive the correction is none, and no loss either; so with an interval that holds 0.
        let [h, not_told] = ["Holds", "Not told"];
        assert_eq!(
            verdicts(numbers([0.0, 0.2, 0.05, 0.0, 0.0], 0.0, 0.2, [1.0, 0.5])),
            [not_told, not_told, h, not_told, not_told, h, h]
        );
    }

    #[test]
    fn a_run_that_does_not_learn_counts_in_no_mean_and_an_end_of_a_grid_is_named() {
        let mut n = numbers([0.0, 0.2, 0.05, 0.2, 0.1], 0.0, 0.001, [1.0, 0.5]);
        let ends =
            |n: &Numbers, words: &str| assert!(helps(n).numbers.ends_with(words), "{}", helps(n).numbers);
        ends(&n, "SGD not reached and not reached, AdamW not reached and not reached");
        n.cells[0].learned[CLAMPED] = vec![Some(90), None];
        ends(&n, "SGD not reached and reached by 1 of 12 runs, AdamW not reached and not reached");
        n.cells[0].learned[CLAMPED] = vec![Some(90), Some(100)];
        ends(&n, "SGD not reached and 95, AdamW not reached and not reached");
        n.nested[0].best.at_edge = true;
        assert!(helps(&n).numbers.contains("GRPO's best of a grid (an end of it: shared, SGD)"));
        n.nested[0].at_edge[0] = true;
        assert!(nested(&n).numbers.contains("(GRPO's best rate is an end of those tried)"));
    }
}
