//! Findings; those on entrants left out and on rates at an end of the grid.

mod gains;
mod places;

use super::measure::Ranking;
use crate::atlas::entrants::ENTRANTS;
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{finding, holds_or};
use crate::training::GROUP;
use grpo_lambda_stats::table::significant;

pub(super) fn findings(r: &Ranking) -> Vec<Finding> {
    vec![
        places::headline(r),
        places::best(r),
        places::coincide(r),
        places::efficiency(r),
        places::values(r),
        places::assay(r),
        gains::per_task(r),
        gains::step_size(r),
        gains::clamp(r),
        gains::explained(r),
        gains::by_hindsight(r),
        grid(r),
        everyone(r),
    ]
}

pub(super) fn grid(r: &Ranking) -> Finding {
    let all: Vec<_> = r.results.choices.iter().flatten().collect();
    let widened = all.iter().filter(|choice| choice.widened > 0).count();
    let mut edges = Vec::new();
    for (c, row) in r.results.choices.iter().enumerate() {
        for (t, choice) in row.iter().enumerate().filter(|(_, choice)| choice.at_edge) {
            edges.push(format!(
                "{} on {} ({})",
                r.name(c),
                r.results.tasks[t].name,
                significant(choice.rate, 3)
            ));
        }
    }
    let g = r.effort.grid;
    finding(
        "Every best learning rate lies inside the grid that was tried",
        match edges.len() {
            0 => Verdict::Holds,
            n => Verdict::HoldsWhen(format!("apart from {n} of {} choices: {}", all.len(), edges.join(", "))),
        },
        format!(
            "2^{} to 2^{}, {} rate(s) per doubling, {} selection runs per rate on streams that are not reported, the smallest rate within 0.005 of the best mean area against responses; {widened} of {} grids widened",
            g.low,
            g.high,
            g.per_octave,
            g.seeds,
            all.len()
        ),
    )
}

fn everyone(r: &Ranking) -> Finding {
    let reasons: Vec<String> =
        r.excluded.iter().map(|e| format!("{}: {}", e.entrant.name, e.reason)).collect();
    finding(
        "Every entrant of the atlas can learn on a table",
        holds_or(reasons.is_empty(), reasons.join("; ")),
        format!(
            "{} competitors of {} entrants (those that need values take part twice); tasks with rewards 0 or 1, so that the teacher of RLSD is defined; one group of {GROUP} and one step per update, so that clipping never binds and methods that differ between prompts or off policy only coincide",
            r.results.competitors.len(),
            ENTRANTS.len()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atlas::learning::competitors::{self, Excluded};
    use crate::atlas::learning::measure::Size;
    use crate::atlas::learning::ranking::Standing;
    use crate::atlas::learning::results::{Budget, Cell, Run, TrainingResults};
    use crate::atlas::learning::why::{
        CLAMP_GAIN, Case, Correlation, LOG2_STEP, QUANTITIES, READINGS, Regime, Why,
    };
    use crate::atlas::learning::words::{curves_title, why_title};
    use crate::experiments::common::{words, words_after};
    use crate::training::Choice;
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
    fn cell(competitor: usize, learned: f64, budget: &Budget) -> Cell {
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

    /// A reading on two tasks: gains at a small equal rate and at its own best rate.
    fn cases(reading: usize, cautious: f64, tuned: f64) -> [Case; 6] {
        let mut gains = [at(0.0); 6];
        gains[Regime::Tuned as usize] = at(tuned);
        gains[Regime::Cautious as usize] = at(cautious);
        let mut quantities = [0.0; QUANTITIES.len()];
        (quantities[LOG2_STEP], quantities[CLAMP_GAIN]) = (3.0, 0.2);
        ["chain", "fork", "noisy", "random", "deceptive", "lucky_guess"].map(|task| Case {
            reading,
            task: task.into(),
            named: true,
            exact: true,
            gains,
            p: 0.001,
            p_holm: 0.001,
            quantities,
        })
    }

    fn correlation(regime: Regime, quantity: usize, rho: f64) -> Correlation {
        Correlation {
            reading: 0,
            regime,
            rho: at(rho),
            quantity,
            p: 0.001,
            p_holm: 0.001,
            tasks: 2,
            agree: (2, 2),
            against: Vec::new(),
        }
    }

    /// Everyone but GRPO gains `gain`, GRPO-lambda at a small equal rate by a longer step.
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
            why: Why {
                cases: (0..READINGS.len()).flat_map(|reading| cases(reading, 0.2, 0.0)).collect(),
                correlations: vec![
                    correlation(Regime::Tuned, 0, 0.7),
                    correlation(Regime::Cautious, LOG2_STEP, 0.7),
                ],
            },
            bootstrap: Bootstrap { resamples: 50, ..Bootstrap::default() },
        }
    }

    fn verdicts(r: &Ranking) -> Vec<&'static str> {
        words(&findings(r))
    }

    const H: &str = "Holds";
    const W: &str = "Holds when";
    const F: &str = "Fails";
    const N: &str = "Not told";

    #[test]
    fn a_field_that_beats_grpo_bears_the_statements_out_and_one_that_loses_refutes_them() {
        assert_eq!(verdicts(&made_up(0.2)), [H, H, H, H, H, H, H, H, H, W, H, H, H]);
        assert_eq!(verdicts(&made_up(-0.2))[..5], [F, F, H, F, F]);
        let mut undecided = made_up(0.2);
        undecided.standings.iter_mut().flatten().for_each(|s| s.p_holm = 0.3);
        assert_eq!(verdicts(&undecided)[..5], [N, F, H, H, F], "a gain that is not significant is none");
    }

    #[test]
    fn titles_say_no_more_than_is_shown() {
        let mut r = made_up(0.2);
        let drawn = super::super::measure::drawn(&r).len();
        assert!(curves_title(&r).contains(&format!("the other {} are within 0.200 of GRPO", drawn - 2)));
        r.why.correlations.iter_mut().for_each(|c| c.p_holm = 0.14);
        assert!(why_title(&r).starts_with("Tuned, no exact quantity known before training is shown to tell"));
    }

    #[test]
    fn the_rest_follows_its_own_numbers() {
        let changed = |change| words_after(made_up(0.2), findings, change);
        assert_eq!(changed(|r| r.results.cells[2] = r.results.cells[1].clone())[2], F, "two methods are one");
        assert_eq!(changed(|r| r.why.cases[1].gains[0] = at(-0.3))[6], F, "a task is lost");
        assert_eq!(changed(|r| r.why.cases.iter_mut().for_each(|c| c.gains[0] = at(0.3)))[7..9], [F, F]);
        assert_eq!(changed(|r| r.why.cases.iter_mut().for_each(|c| c.gains = [at(0.0); 6]))[7], F);
        assert_eq!(changed(|r| r.why.correlations.iter_mut().for_each(|c| c.p_holm = 0.14))[9..11], [N, N]);
        assert_eq!(changed(|r| r.why.correlations[1].rho = at(-0.7))[10], F);
        assert_eq!(changed(|r| r.why.correlations.clear())[9..11], [N, N], "what was not measured");
        let one_task = |r: &mut Ranking| {
            // Clamp and trace move every task alike but one.
            r.why.cases.iter_mut().filter(|c| c.task != "fork").for_each(|c| c.gains[0] = at(0.2));
        };
        assert_eq!(changed(one_task)[8], N);
        assert_eq!(changed(|r| r.results.choices[3][0].at_edge = true)[11], W);
        let exclude = |r: &mut Ranking| {
            let entrant = r.results.competitors[0].entrant;
            r.excluded.push(Excluded { entrant, reason: "no table".into() });
        };
        assert_eq!(changed(exclude)[12], F);
    }
}
