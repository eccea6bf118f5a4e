//! Findings; those on entries left out and on rates at an end of the grid.

mod places;

use super::measure::Ranking;
use crate::atlas::entries::ENTRIES;
use crate::experiment::Finding;
use crate::experiments::common::holds_or;
use crate::training::{GROUP, inside_the_grid};

pub(super) fn findings(r: &Ranking) -> Vec<Finding> {
    vec![
        places::headline(r),
        places::best(r),
        places::coincide(r),
        places::efficiency(r),
        places::values(r),
        places::assay(r),
        grid(r),
        everyone(r),
    ]
}

fn grid(r: &Ranking) -> Finding {
    let names: Vec<String> = (0..r.results.competitors.len()).map(|c| r.name(c)).collect();
    let named = names.iter().zip(&r.results.choices).flat_map(|(name, of)| {
        r.results.tasks.iter().zip(of).map(move |(task, choice)| (name.as_str(), task.name.as_str(), choice))
    });
    inside_the_grid(r.effort.grid, named)
}

fn everyone(r: &Ranking) -> Finding {
    let excluded: Vec<&str> = r.excluded.iter().map(|e| e.entry.name).collect();
    Finding::new(
        "everyone",
        "Every method of the atlas can train a tabular policy",
        holds_or(excluded.is_empty(), format!("these {} cannot: {}", excluded.len(), excluded.join("; "))),
    )
    .value("methods compared", r.results.competitors.len())
    .value("methods of the atlas", ENTRIES.len())
    .note(format!(
        "The reasons stand in the table. Entries that need values take part twice. There is one group of {GROUP} and one step per update, so that clipping never binds."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atlas::learning::competitors::{self, Excluded};
    use crate::atlas::learning::measure::Size;
    use crate::atlas::learning::ranking::Standing;
    use crate::atlas::learning::results::{Budget, Run, TrainingResults};
    use crate::atlas::learning::words::curves_title;
    use crate::experiments::common::{words, words_after};
    use crate::training::{Cell, Choice};
    use grpo_lambda_stats::{Bootstrap, Interval, OverTasks};

    fn at(mid: f64) -> Interval {
        Interval { low: mid - 0.01, mid, high: mid + 0.01, level: 0.95 }
    }

    fn standing(gain: f64) -> Standing {
        Standing {
            level: at(0.5 + gain),
            gain: at(gain),
            improvement: at(0.5),
            rank: at(1.0),
            rank_over_tasks: at(1.0),
            over_tasks: OverTasks::new(&[gain; 9]),
            gains: vec![at(gain)],
            p: 0.001,
            p_holm: 0.001,
        }
    }

    /// The runs of a competitor: areas of its own, and a share of the budget at which it has learned.
    fn cell(competitor: usize, learned: f64, budget: &Budget) -> Cell<Run> {
        let run = |i: usize| {
            let area = 0.5 + 1e-3 * competitor as f64 + 1e-2 * i as f64;
            Run {
                area: [area; 2],
                learned: [0, 1].map(|axis| Some(learned * budget.spend[axis])),
                last: 0.9,
                updates: 5,
                curve: Default::default(),
            }
        };
        Cell { rate: 1.0, runs: (0..3).map(run).collect() }
    }

    /// Everyone but GRPO gains `gain`.
    fn made_up(gain: f64) -> Ranking {
        let mut tasks = competitors::named(false).unwrap();
        tasks.truncate(1);
        let (competitors, _) = competitors::all(&tasks[0]).unwrap();
        let effort = Size::new(false).effort;
        let budget = Budget::new(&tasks[0], effort.updates, 0);
        let n = competitors.len();
        let learned = |c: usize| if (c == 0) == (gain > 0.0) { 0.8 } else { 0.2 };
        let standings = || (0..n).map(|c| standing(if c == 0 { 0.0 } else { gain })).collect::<Vec<_>>();
        Ranking {
            effort,
            results: TrainingResults {
                choices: (0..n)
                    .map(|_| vec![Choice { rate: 1.0, tried: Vec::new(), widened: 0, at_edge: false }])
                    .collect(),
                cells: (0..n).map(|c| vec![cell(c, learned(c), &budget)]).collect(),
                tasks,
                competitors,
            },
            excluded: Vec::new(),
            standings: [standings(), standings()],
            order: (0..n).collect(),
            bootstrap: Bootstrap { resamples: 50, ..Bootstrap::default() },
        }
    }

    fn verdicts(r: &Ranking) -> Vec<&'static str> {
        words(&findings(r))
    }

    const H: &str = "Holds";
    const W: &str = "Holds when";
    const F: &str = "Fails";
    const N: &str = "Inconclusive";

    #[test]
    fn a_field_that_beats_grpo_bears_the_statements_out_and_one_that_loses_refutes_them() {
        assert_eq!(verdicts(&made_up(0.2)), [H, H, H, H, H, H, H, H]);
        assert_eq!(verdicts(&made_up(-0.2))[..5], [F, F, H, F, F]);
        let mut undecided = made_up(0.2);
        undecided.standings.iter_mut().flatten().for_each(|s| s.p_holm = 0.3);
        assert_eq!(verdicts(&undecided)[..5], [N, F, H, H, F], "a gain that is not significant is none");
    }

    #[test]
    fn titles_say_no_more_than_is_shown() {
        let r = made_up(0.2);
        let drawn = super::super::measure::drawn(&r).len();
        assert!(curves_title(&r).contains(&format!("the other {} are within 0.200 of GRPO", drawn - 2)));
    }

    #[test]
    fn the_rest_follows_its_own_numbers() {
        let changed = |change| words_after(made_up(0.2), findings, change);
        assert_eq!(changed(|r| r.results.cells[2] = r.results.cells[1].clone())[2], F, "two methods are one");
        assert_eq!(changed(|r| r.results.choices[3][0].at_edge = true)[6], W);
        let exclude = |r: &mut Ranking| {
            let entry = r.results.competitors[0].entry;
            r.excluded.push(Excluded { entry, reason: "no table".into() });
        };
        assert_eq!(changed(exclude)[7], F);
    }
}
