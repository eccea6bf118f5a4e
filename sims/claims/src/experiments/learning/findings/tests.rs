use super::*;
use crate::experiments::common::findings::words;
use crate::experiments::learning::measure::{Comparison, Exact, Size};
use crate::experiments::learning::reading::{PAPER, readings};
use crate::experiments::learning::scores::{Overall, Scores};
use crate::training::rates::Choice;
use crate::training::task::tasks;
use grpo_lambda_mdp::expected;
use grpo_lambda_stats::{Interval, OverTasks};

/// A comparison on one task in which every reading gains `gain` on GRPO under every regime.
fn made_up(gain: f64) -> Comparison {
    let at = |mid: f64| Interval { low: mid - 0.01, mid, high: mid + 0.01, level: 0.95 };
    let overall = || Overall {
        area: at(0.5 + gain),
        gain: at(gain),
        percent: at(200.0 * gain),
        improvement: at(0.5),
        last: 0.9,
        over_tasks: OverTasks::new(&[gain; 9]).unwrap(),
        gains: vec![at(gain)],
        better: if gain > 0.01 { vec![0] } else { Vec::new() },
        worse: if gain < -0.01 { vec![0] } else { Vec::new() },
    };
    let mut tasks = tasks(false).unwrap();
    tasks.truncate(1);
    let readings = readings();
    let n = readings.len();
    let choice = || Choice { rate: 1.0, tried: Vec::new(), widened: 0, at_edge: false };
    let update = expected::Comparison {
        cosine: 0.9,
        scale: 1.0,
        bias: 0.1,
        sign_agreement: 1.0,
        signal_to_noise: 1.0,
    };
    let Size { plan, grid, runs, .. } = Size::new(false);
    Comparison {
        tasks,
        readings,
        grid,
        plan,
        runs,
        choices: (0..n).map(|_| vec![choice()]).collect(),
        sweeps: Vec::new(),
        sweep_runs: 1,
        exact: Exact {
            updates: vec![vec![Some(update)]; n],
            unit_updates: vec![Some(update)],
            mean_weights: [3.0, 4.0],
            credits: vec![(PAPER[0], vec![2.0, 1.0])],
        },
        scores: Scores::none(),
        overall: Regime::ALL.map(|_| (0..n).map(|_| Some(overall())).collect()).into(),
        last: vec![vec![0.9]; n],
    }
}

fn verdicts(c: &Comparison) -> Vec<&'static str> {
    words(&findings(c))
}

#[test]
fn gains_everywhere_bear_the_paper_out_and_losses_refute_it() {
    // Headline, four regimes, the average gap, every reading: a gain of 0.2 is 40 %.
    assert_eq!(verdicts(&made_up(0.2))[..7], ["Holds"; 7]);
    // No gain and no loss is nothing told; the average gap is 0 all the same, and not every reading beats GRPO.
    assert_eq!(verdicts(&made_up(0.0))[..5], ["Not told"; 5]);
    assert_eq!(verdicts(&made_up(0.0))[5..7], ["Fails"; 2]);
    assert_eq!(verdicts(&made_up(-0.2))[..7], ["Fails"; 7]);
    // Ten percent is a gain, but not one of 20 to 50 %.
    assert_eq!(verdicts(&made_up(0.05))[5], "Fails");
}

#[test]
fn one_regime_without_a_gain_is_a_condition() {
    let mut c = made_up(0.2);
    c.overall[Regime::OwnBest as usize] = made_up(-0.2).overall.swap_remove(0);
    let said = findings(&c);
    assert_eq!(words(&said)[..5], ["Holds when", "Holds", "Holds", "Fails", "Holds"]);
    assert!(said[0].verdict.detail().contains("worse each at its own best rate"), "{:?}", said[0]);
    // One MDP that is lost is named.
    let mut c = made_up(0.2);
    let paper = c.index(PAPER[0]);
    c.overall[Regime::Equal as usize][paper].as_mut().unwrap().worse = vec![0];
    assert_eq!(findings(&c)[1].verdict.detail(), "averaged over MDPs; worse on fork");
}

#[test]
fn the_causes_follow_their_own_numbers() {
    // The gain is the same at all rates, and the clamp changes nothing.
    assert_eq!(verdicts(&made_up(0.2))[7..], ["Fails", "Fails", "Holds", "Holds", "Holds"]);
    let mut c = made_up(0.2);
    let paper = c.index(PAPER[0]);
    c.overall[Regime::Cautious as usize][paper].as_mut().unwrap().gain.mid = 0.5;
    c.overall[Regime::OwnBest as usize][paper].as_mut().unwrap().gain.mid = 0.3;
    c.exact.updates[paper][0].as_mut().unwrap().cosine = 0.5;
    c.exact.credits[0].1 = vec![1.0, 20.0];
    c.choices[3][0].at_edge = true;
    assert_eq!(verdicts(&c)[7..], ["Holds", "Holds", "Fails", "Fails", "Holds when"]);
}
