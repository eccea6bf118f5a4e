//! The findings.

use super::measure::{ARMS, CLAMPED, Kind, LEARNED, OFFSET, REWEIGHTING, WEIGHTS};
use super::{Nested, Numbers, Outcome, RUNS};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{Shown, gains_everywhere, holds_or, largest, list, short};

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![helps(n), nested(n), parts(n), weights(n), shared(n), offset(n), solved(n)]
}

pub(super) fn cells(n: &Numbers, shared: bool, kind: Kind) -> Vec<&Outcome> {
    n.cells.iter().filter(|c| c.shared == shared && c.kind == kind).collect()
}

fn place(cell: &Outcome) -> String {
    format!("{}, {}, {} of the best rate", policy(cell.shared), cell.kind.name(), cell.ratio)
}

/// The multiples of the best rate of some settings, by optimiser.
fn multiples(cells: &[&Outcome]) -> String {
    let of_kind = |kind: Kind| {
        let own = cells.iter().filter(|c| c.kind == kind);
        let ratios: Vec<String> = own.map(|c| c.ratio.to_string()).collect();
        (!ratios.is_empty())
            .then(|| format!("{} times GRPO's best with {}", ratios.join(" or "), kind.name()))
    };
    [Kind::Sgd, Kind::AdamW].into_iter().filter_map(of_kind).collect::<Vec<_>>().join(", or ")
}

/// Shows the gains of some arms with a policy.
fn showing(finding: Finding, shared: bool, arms: &[usize]) -> Finding {
    let columns =
        ["optimiser", "rate_over_best_of_grpo", "arm", "gain", "gain_low", "gain_high", "updates_to_80"];
    let arms: Vec<&str> = arms.iter().map(|&arm| ARMS[arm].name).collect();
    finding.rows("", &columns).only("policy", &[policy(shared)]).only("arm", &arms)
}

/// The weight by arm of a prompt at success rate `p`, if it was computed there.
fn weights_at(n: &Numbers, p: f64) -> Option<[f64; ARMS.len()]> {
    n.weights.iter().find(|(q, _)| (q - p).abs() < 1e-9).map(|(_, w)| *w)
}

/// The share of its weight that an arm leaves a prompt at success rate `p`.
fn share_left(n: &Numbers, arm: usize, p: f64) -> Option<f64> {
    weights_at(n, p).map(|w| w[arm] / w[0])
}

/// The policies and optimisers for which GRPO's best rate, over which all rates are given, is an end of its grid.
fn ends_of_grid(n: &Numbers, policies: &[bool]) -> Vec<String> {
    let at_edge = n.nested.iter().filter(|o| o.best.at_edge && policies.contains(&o.shared));
    at_edge.map(|o| format!("{}, {}", policy(o.shared), o.kind.name())).collect()
}

/// The rate over which the rates of some policies are given.
pub(super) fn best_of_grid(n: &Numbers, policies: &[bool]) -> String {
    let ends = ends_of_grid(n, policies);
    let ends = if ends.is_empty() { String::new() } else { format!(" (an end of it: {})", ends.join("; ")) };
    format!("GRPO's best of a grid{ends}")
}

fn policy(shared: bool) -> &'static str {
    if shared { "shared" } else { "table" }
}

fn of_clamp(cell: &Outcome) -> Shown {
    Shown::by_p(cell.gain[CLAMPED].interval.mid, cell.gain[CLAMPED].corrected)
}

fn helps(n: &Numbers) -> Finding {
    let all: Vec<&Outcome> = n.cells.iter().filter(|c| c.shared).collect();
    let shown: Vec<Shown> = all.iter().map(|c| of_clamp(c)).collect();
    let no = Shown::Loss.count(&shown);
    let yes = all.iter().filter(|c| of_clamp(c) == Shown::Gain);
    let places: Vec<&Outcome> = yes.copied().collect();
    let worst =
        all.iter().min_by(|a, b| a.gain[CLAMPED].interval.mid.total_cmp(&b.gain[CLAMPED].interval.mid));
    let finding = Finding::new(
        "helps",
        "The clamp helps a policy whose parameters are shared by many prompts",
        gains_everywhere(
            &shown,
            format!(
                "the learning rate is {}; the clamp hurts in {no} of {} settings",
                multiples(&places),
                all.len()
            ),
            format!(
                "the clamp helps in none of {} settings after Holm's correction and hurts in {no}; it is worst \
                 at {}",
                all.len(),
                worst.map_or(String::new(), |c| place(c))
            ),
        ),
    );
    showing(finding, true, &[0, CLAMPED])
        .value("paired runs", RUNS)
        .value("updates", n.updates)
        .value("GRPO's best rates at an end of its grid", ends_of_grid(n, &[true]))
        .note(format!(
            "Mean J over the updates (area) minus GRPO's; J starts at 0.4. Updates until J = {LEARNED} are a mean over runs, where all get there."
        ))
}

/// The settings with a policy where every run has the rate that the others choose.
fn at_nested(n: &Numbers, shared: bool) -> Vec<&Nested> {
    n.nested.iter().filter(|o| o.shared == shared).collect()
}

/// The verdict on an arm that is said to gain under every optimiser with shared parameters.
fn of_optimisers(n: &Numbers, arm: usize) -> Verdict {
    let all = at_nested(n, true);
    let shown: Vec<Shown> = all.iter().map(|o| Shown::by_interval(o.gain[arm].interval)).collect();
    let gaining = all.iter().zip(&shown).filter(|(_, s)| **s == Shown::Gain);
    let names: Vec<&str> = gaining.map(|(o, _)| o.kind.name()).collect();
    gains_everywhere(&shown, names.join(", "), "no interval lies above 0")
}

/// Adds the gains of some arms at the rates that the other runs choose.
fn with_nested(finding: Finding, n: &Numbers, shared: bool, arms: &[usize]) -> Finding {
    let cases = at_nested(n, shared).into_iter().flat_map(|o| arms.iter().map(move |&arm| (o, arm)));
    cases.fold(finding, |finding, (o, arm)| {
        let name = format!("{}, {}: {}", policy(shared), o.kind.name(), ARMS[arm].name);
        finding.interval(name, o.gain[arm].interval)
    })
}

fn nested(n: &Numbers) -> Finding {
    let ends = n.nested.iter().flat_map(|o| {
        let arms = [0, CLAMPED].into_iter().filter(|&arm| o.at_edge[arm]);
        arms.map(move |arm| format!("{}, {}: {}", policy(o.shared), o.kind.name(), ARMS[arm].name))
    });
    let finding = Finding::new(
        "nested",
        "With shared parameters the clamp helps if the learning rate of each run is chosen on the other runs",
        of_optimisers(n, CLAMPED),
    );
    let finding = with_nested(finding, n, true, &[CLAMPED]);
    with_nested(finding, n, false, &[CLAMPED])
        .value("best rates at an end of those tried", ends.collect::<Vec<_>>())
        .note("Area minus GRPO's; the table has the same start.")
}

/// The clamp's weights without its contrast and offset.
fn weights(n: &Numbers) -> Finding {
    let finding = Finding::new(
        "weights",
        "With shared parameters GRPO learns faster if its advantages are only multiplied by the weights that the \
         clamp gives to prompts",
        of_optimisers(n, WEIGHTS),
    );
    with_nested(finding, n, true, &[WEIGHTS, CLAMPED, REWEIGHTING, OFFSET])
        .value("weight left at success rate 0.9, the clamp and its weights", share_left(n, CLAMPED, 0.9))
        .value("weight left at success rate 0.9, re-weighting only", share_left(n, REWEIGHTING, 0.9))
        .note("Area minus GRPO's at rates chosen on the other runs.")
}

fn parts(n: &Numbers) -> Finding {
    let shared: Vec<&Outcome> = n.cells.iter().filter(|c| c.shared).collect();
    let rms = |arm: usize| {
        (shared.iter().map(|c| c.gain[arm].interval.mid.powi(2)).sum::<f64>() / shared.len() as f64).sqrt()
    };
    let rest = shared
        .iter()
        .map(|c| {
            (c.gain[CLAMPED].interval.mid - c.gain[REWEIGHTING].interval.mid - c.gain[OFFSET].interval.mid)
                .powi(2)
        })
        .sum::<f64>();
    let finding = Finding::new(
        "parts",
        "The clamp works by re-weighting prompts: its re-weighting part changes the area under the learning \
         curve more than its offset does",
        holds_or(
            rms(REWEIGHTING) > rms(OFFSET),
            format!("re-weighting {}, offset {}", short(rms(REWEIGHTING)), short(rms(OFFSET))),
        ),
    );
    showing(finding, true, &[REWEIGHTING, OFFSET])
        .value("cells", shared.len())
        .value("re-weighting", rms(REWEIGHTING))
        .value("offset", rms(OFFSET))
        .value("both", rms(CLAMPED))
        .value("what does not add up", (rest / shared.len() as f64).sqrt())
        .note("Root mean squares over the cells of the effect on the area.")
}

fn shared(n: &Numbers) -> Finding {
    let pairs: Vec<(&Outcome, &Outcome)> = Kind::ALL
        .into_iter()
        .flat_map(|kind| cells(n, true, kind).into_iter().zip(cells(n, false, kind)))
        .collect();
    let more =
        pairs.iter().filter(|(s, t)| s.gain[CLAMPED].interval.mid > t.gain[CLAMPED].interval.mid).count();
    let most = |shared: bool| {
        let area = |c: &&Outcome| c.areas[0].iter().sum::<f64>() / c.areas[0].len() as f64;
        largest(cells(n, shared, Kind::Sgd).iter().map(area))
    };
    let shown: Vec<Shown> = pairs
        .iter()
        .map(|(s, t)| match (s.gain[CLAMPED].interval, t.gain[CLAMPED].interval) {
            (s, t) if s.low > t.high => Shown::Gain,
            (s, t) if s.high < t.low => Shown::Loss,
            _ => Shown::Neither,
        })
        .collect();
    let apart = Shown::Gain.count(&shown);
    let finding = Finding::new(
        "shared",
        "The clamp helps a policy with shared parameters more than a table with the same start policy",
        gains_everywhere(
            &shown,
            format!(
                "the setting is one of {apart} of {} in which the interval of the gain lies above that of the \
                 table; the mean gain is larger in {more}",
                pairs.len()
            ),
            format!(
                "in no setting the interval of the gain lies above that of the table; the mean gain is larger in \
                 {more} of {}",
                pairs.len()
            ),
        ),
    );
    showing(finding, false, &[CLAMPED])
        .value("GRPO's best rates at an end of its grid", ends_of_grid(n, &[false]))
        .value("GRPO's greatest mean area, shared, SGD", most(true))
        .value("GRPO's greatest mean area, table, SGD", most(false))
        .note("The clamp's gain in the table, which has little left to gain at its best rates.")
}

fn offset(n: &Numbers) -> Finding {
    let moved = largest(n.weights.iter().map(|(_, w)| (w[OFFSET] - w[0]).abs()));
    let finding = Finding::new(
        "offset",
        "On average the clamp's offset has no effect, since it is the same for all responses of a group",
        holds_or(
            moved < 1e-12,
            "the offset re-weights prompts, too, since it depends on the number of right responses",
        ),
    );
    finding
        .value("largest change of the multiple of ∇p", moved)
        .rows("weights", &["success_rate", "arm", "multiple_of_gradient"])
        .only("success_rate", &[0.1, 0.5, 0.9])
        .only("arm", &[ARMS[0].name, ARMS[OFFSET].name])
        .note("Exact, G = 8.")
}

fn solved(n: &Numbers) -> Finding {
    let falls =
        n.weights.windows(2).all(|w| w[1].1[CLAMPED] / w[1].1[0] <= w[0].1[CLAMPED] / w[0].1[0] + 1e-12);
    let finding = Finding::new(
        "solved",
        "The more often a prompt is solved, the smaller the share of its weight that remains under the clamp",
        holds_or(falls, "the share of the weight that is left rises somewhere"),
    );
    [0.02, 0.5, 0.9, 0.98]
        .into_iter()
        .fold(finding, |finding, p| {
            finding.value(format!("weight left at success rate {p}"), share_left(n, CLAMPED, p))
        })
        .value("quartiles of the success rates at the start", list(&n.start.map(short)))
}

#[cfg(test)]
mod tests {
    use super::super::Best;
    use super::*;
    use crate::experiments::common::words;
    use grpo_lambda_stats::Interval;
    use grpo_lambda_trials::Difference;

    fn numbers(gains: [f64; ARMS.len()], table: f64, p: f64, weights: [f64; 2]) -> Numbers {
        let at = |mid: f64| Interval { low: mid - 0.01, mid, high: mid + 0.01, level: 0.95 };
        let difference = |mid: f64| {
            let interval = at(mid);
            Difference { values: vec![mid; 2], interval, narrow: interval, p, corrected: p }
        };
        let cell = |(shared, kind)| Outcome {
            shared,
            kind,
            ratio: 1.0,
            rate: 1.0,
            areas: Default::default(),
            last: [0.5; ARMS.len()],
            learned: std::array::from_fn(|_| vec![None; 2]),
            gain: if shared { gains } else { [0.0, 0.0, 0.0, table, 0.0] }.map(difference).to_vec(),
        };
        let all = [true, false].into_iter().flat_map(|shared| Kind::ALL.map(|kind| (shared, kind)));
        Numbers {
            nested: Kind::ALL
                .map(|kind| Nested {
                    shared: true,
                    kind,
                    gain: gains.map(difference).to_vec(),
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
        let [h, inconclusive] = ["Holds", "Inconclusive"];
        assert_eq!(
            verdicts(numbers([0.0, 0.2, 0.05, 0.0, 0.0], 0.0, 0.2, [1.0, 0.5])),
            [inconclusive, inconclusive, h, inconclusive, inconclusive, h, h]
        );
    }

    #[test]
    fn a_run_that_does_not_learn_counts_in_no_mean_and_an_end_of_a_grid_is_named() {
        let mut n = numbers([0.0, 0.2, 0.05, 0.2, 0.1], 0.0, 0.001, [1.0, 0.5]);
        let updates = |n: &Numbers| n.cells[0].updates_to_learned(CLAMPED);
        n.cells[0].learned[CLAMPED] = vec![Some(90), None];
        assert_eq!(updates(&n), None);
        n.cells[0].learned[CLAMPED] = vec![Some(90), Some(100)];
        assert_eq!(updates(&n), Some(95.0));
        n.nested[0].best.at_edge = true;
        assert_eq!(helps(&n).values["GRPO's best rates at an end of its grid"][0], "shared, SGD");
        n.nested[0].at_edge[0] = true;
        assert_eq!(nested(&n).values["best rates at an end of those tried"][0], "shared, SGD: none (GRPO)");
    }
}
