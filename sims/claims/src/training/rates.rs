//! Each method's own best learning rate, on runs that are not reported.

use grpo_lambda_stats::{mean, standard_error};
use serde::{Deserialize, Serialize};

use super::stream::{Phase, stream};

/// Rates or ratios of rates with a mean area and its standard error.
pub(crate) type Sweep = Vec<(f64, f64, f64)>;

/// The declared grid: `2^(k/per_octave)` from `low` to `high`, widened while the best rate is an end of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    /// Exponent of the smallest rate.
    pub(crate) low: i32,
    /// Exponent of the greatest rate.
    pub(crate) high: i32,
    /// Rates per doubling.
    pub(crate) per_octave: i32,
    /// The most rates added at either end.
    pub(crate) widen: i32,
    /// Runs per rate.
    pub(crate) seeds: usize,
}

/// Areas this close to the greatest are as good: where the area hardly depends on the rate any more, the smallest such rate is
/// taken, not one from the noise of the plateau.
pub(crate) const AS_GOOD: f64 = 0.005;

/// The selection of one method on one MDP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Choice {
    /// The smallest rate whose mean area is within [`AS_GOOD`] of the greatest. The mean, not the interquartile mean: a rate at
    /// which a quarter of the runs lock into a wrong answer should pay for them.
    pub(crate) rate: f64,
    /// Rates in ascending order with the mean of their areas and its standard error.
    pub(crate) tried: Sweep,
    /// Rates added because the best one was an end of the declared grid.
    pub(crate) widened: usize,
    /// True if the best rate is an end of the widened grid.
    pub(crate) at_edge: bool,
}

/// Tries the grid on `task` and widens it while that helps. `area(rate, stream)` is the score of a selection run at a rate.
pub(crate) fn choose(grid: Grid, seed: u64, task: &str, area: impl Fn(f64, u64) -> f64) -> Choice {
    let rate = |k: i32| 2f64.powf(f64::from(k) / f64::from(grid.per_octave));
    let streams: Vec<u64> = (0..grid.seeds).map(|run| stream(seed, Phase::Selection, task, run)).collect();
    let score = |k: i32| {
        let areas: Vec<f64> = streams.iter().map(|&stream| area(rate(k), stream)).collect();
        (k, mean(&areas).unwrap_or(f64::NAN), standard_error(&areas).unwrap_or(f64::NAN))
    };
    let (mut low, mut high) = (grid.low * grid.per_octave, grid.high * grid.per_octave);
    let mut tried: Vec<(i32, f64, f64)> = (low..=high).map(score).collect();
    let declared = tried.len();
    let (first, last) = (low - grid.widen, high + grid.widen);
    loop {
        let best = best(&tried);
        if best == low && low > first {
            low -= 1;
            tried.insert(0, score(low));
        } else if best == high && high < last {
            high += 1;
            tried.push(score(high));
        } else {
            return Choice {
                rate: rate(best),
                widened: tried.len() - declared,
                at_edge: best == low || best == high,
                tried: tried.into_iter().map(|(k, area, error)| (rate(k), area, error)).collect(),
            };
        }
    }
}

/// The smallest exponent whose score is as good as the greatest.
fn best(tried: &[(i32, f64, f64)]) -> i32 {
    let greatest = tried.iter().map(|&(_, s, _)| s).fold(f64::NEG_INFINITY, f64::max);
    tried.iter().find(|&&(_, s, _)| s >= greatest - AS_GOOD).map_or(0, |&(k, ..)| k)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    #[test]
    fn the_plateau_begins_at_its_smallest_rate() {
        let tried = [(-1, 0.1), (0, 0.5), (1, 0.896), (2, 0.9), (3, 0.899)].map(|(k, area)| (k, area, 0.0));
        assert_eq!(best(&tried), 1);
    }

    #[test]
    fn an_end_of_the_grid_that_wins_is_widened_and_then_flagged() {
        let grid = Grid { low: 0, high: 2, per_octave: 1, widen: 2, seeds: 2 };
        let inside = choose(grid, 7, "fork", |rate, _| -(rate.log2() - 1.0).abs());
        assert_eq!((inside.rate, inside.widened, inside.at_edge), (2.0, 0, false));
        let above = choose(grid, 7, "fork", |rate, _| -(rate.log2() - 3.0).abs());
        assert_eq!((above.rate, above.widened, above.at_edge), (8.0, 2, false));
        let never = choose(grid, 7, "fork", |rate, _| rate);
        assert_eq!((never.rate, never.widened, never.at_edge), (16.0, 2, true));
    }

    #[test]
    fn rates_are_chosen_without_a_look_at_the_reported_runs() {
        let grid = Grid { low: 0, high: 3, per_octave: 1, widen: 1, seeds: 40 };
        let reported: BTreeSet<u64> = (0..40).map(|i| stream(7, Phase::Report, "fork", i)).collect();
        let seen = RefCell::new(BTreeSet::new());
        // Reported streams would make the smallest rate the best, selection streams make 4 the best.
        let choice = choose(grid, 7, "fork", |rate, stream| {
            seen.borrow_mut().insert(stream);
            if reported.contains(&stream) { -rate } else { -(rate - 4.0).abs() }
        });
        assert_eq!(choice.rate, 4.0);
        assert_eq!(seen.borrow().len(), 40);
        assert!(seen.borrow().is_disjoint(&reported));
    }
}
