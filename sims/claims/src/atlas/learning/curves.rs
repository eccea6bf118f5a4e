//! The learning curves that are drawn and kept.

use crate::training::mean_of_means;
use grpo_lambda_stats::{Bootstrap, Interval};

use super::measure::Ranking;
use super::run::{Budget, CostAxis};
use super::why::READINGS;
use crate::atlas::entrants::BASELINE;

/// The methods whose curves are drawn and kept.
pub(super) fn drawn(r: &Ranking) -> Vec<usize> {
    let names = [BASELINE, READINGS[0], "RLOO", "TEMPO", "VinePPO, K = 8", "PPO, exact critic"];
    names.iter().filter_map(|name| r.results.find(name)).collect()
}

/// A kept curve: what was spent, and `J/J*` as the mean over runs.
pub(super) fn curve(r: &Ranking, c: usize, t: usize, axis: CostAxis) -> Vec<(f64, Interval)> {
    let runs = &r.results.cells[c][t].runs;
    let budget = Budget::new(&r.results.tasks[t], r.effort.updates, r.effort.pieces);
    // The band of a curve needs fewer resamples than a number that is reported.
    let bootstrap = Bootstrap { resamples: (r.bootstrap.resamples / 4).max(1), ..r.bootstrap };
    let at = |i: usize| {
        let spent = budget.spend[axis as usize] * i as f64 / budget.pieces as f64;
        let values = runs.iter().map(|run| run.curve[axis as usize][i]).collect();
        Some((spent, bootstrap.interval(&[values], mean_of_means)?))
    };
    (0..=budget.pieces).filter_map(at).collect()
}
