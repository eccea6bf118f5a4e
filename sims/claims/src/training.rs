//! Training of tabular policies: tasks, streams of random numbers, one run, the choice of learning rates, paired differences.

use crate::experiment::{Finding, Verdict};
use grpo_lambda::learner::{Samples, iterate};
use grpo_lambda::methods::Method;
use grpo_lambda_mdp::zoo::{self, Family, RandomRewards};
use grpo_lambda_mdp::{Optimal, Oracle, Tabular, Tree};
use grpo_lambda_stats::table::significant;
use grpo_lambda_stats::{Bootstrap, Interval, mean, standard_error};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::ops::ControlFlow;

/// Responses per group, one group per update.
pub(crate) const GROUP: usize = 8;
/// The share of `J*` that counts as learned.
pub(crate) const LEARNED: f64 = 0.9;

/// Trains for at most `updates` updates of one group of [`GROUP`] responses and one gradient step each. `watch` sees the learner after
/// every update and may end the run.
pub(crate) fn train<L: Samples<Prompt = (), Error = Infallible>>(
    learner: &mut L,
    method: &dyn Method,
    updates: usize,
    mut watch: impl FnMut(&L) -> ControlFlow<()>,
) {
    for _ in 0..updates {
        let Ok(_) = iterate(learner, method, &[()], GROUP, 1);
        if watch(learner).is_break() {
            break;
        }
    }
}

/// `contrast` of the levels of two methods, `x` and `y`: [`mean_of_means`] by task and run, with runs drawn in pairs that share their stream.
pub(crate) fn paired(
    bootstrap: Bootstrap,
    x: &[Vec<f64>],
    y: &[Vec<f64>],
    contrast: impl Fn(f64, f64) -> f64 + Sync,
) -> Option<Interval> {
    let level = |all: &[Vec<f64>], drawn: &[Vec<f64>]| {
        let runs = |(all, drawn): (&Vec<f64>, &Vec<f64>)| drawn.iter().map(|&i| all[i as usize]).collect();
        mean_of_means(&all.iter().zip(drawn).map(runs).collect::<Vec<_>>())
    };
    // A draw is the number of a pair.
    let numbers: Vec<Vec<f64>> = x.iter().map(|runs| (0..runs.len()).map(|i| i as f64).collect()).collect();
    bootstrap.interval(&numbers, |drawn| contrast(level(x, drawn), level(y, drawn)))
}

/// The mean over tasks of each task's mean over runs.
pub(crate) fn mean_of_means(tasks: &[Vec<f64>]) -> f64 {
    tasks.iter().map(|runs| mean(runs).unwrap_or(f64::NAN)).sum::<f64>() / tasks.len() as f64
}

/// The results of `work` on each of the first with each of the second, as of methods and tasks, on all threads: `[first][second]`.
pub(crate) fn crossed<T: Send>(
    first: usize,
    second: usize,
    work: impl Fn(usize, usize) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<Vec<T>>> {
    let with_all = |one| (0..second).into_par_iter().map(|other| work(one, other)).collect();
    (0..first).into_par_iter().map(with_all).collect()
}

/// The runs of one method on one task at one rate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell<R> {
    pub(crate) rate: f64,
    /// The runs, in the order of their streams.
    pub(crate) runs: Vec<R>,
}

impl<R: Sync> Cell<R> {
    /// A number of every run.
    pub(crate) fn scores(&self, score: impl Fn(&R) -> f64) -> Vec<f64> {
        self.runs.iter().map(score).collect()
    }

    pub(crate) fn mean(&self, score: impl Fn(&R) -> f64) -> Option<f64> {
        mean(&self.scores(score))
    }

    /// The median of what runs spent until they had learned; `None` if most never do.
    pub(crate) fn median_learned(&self, learned: impl Fn(&R) -> Option<f64>) -> Option<f64> {
        let mut spent = self.scores(|run| learned(run).unwrap_or(f64::INFINITY));
        spent.sort_by(f64::total_cmp);
        let median = (spent[(spent.len() - 1) / 2] + spent[spent.len() / 2]) / 2.0;
        median.is_finite().then_some(median)
    }

    /// The share of runs that learn.
    pub(crate) fn share_learned(&self, learned: impl Fn(&R) -> Option<f64>) -> f64 {
        self.runs.iter().filter(|run| learned(run).is_some()).count() as f64 / self.runs.len() as f64
    }

    /// The kept learning curve: mean over runs at each point.
    pub(crate) fn curve(&self, bootstrap: Bootstrap, kept: fn(&R) -> &[f64]) -> Option<Vec<Interval>> {
        // The band of a curve needs fewer resamples than a number that is reported.
        let bootstrap = Bootstrap { resamples: (bootstrap.resamples / 4).max(1), ..bootstrap };
        let at = |i: usize| bootstrap.interval(&[self.scores(|run| kept(run)[i])], mean_of_means);
        (0..kept(self.runs.first()?).len()).into_par_iter().map(at).collect()
    }
}

/// An MDP with the policy that learning starts from.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) name: String,
    /// Its point, for the reader of a figure.
    pub(crate) about: String,
    pub(crate) tree: Tree,
    /// The initial policy.
    pub(crate) start: Tabular,
    /// `J*`.
    pub(crate) best: f64,
    /// `J` of the initial policy.
    pub(crate) start_j: f64,
    /// Tokens of the shortest response.
    pub(crate) shortest: usize,
    /// Tokens of the longest response.
    pub(crate) longest: usize,
}

impl Task {
    /// A family's instance at its suggested initial policy.
    pub(crate) fn new(name: &str, about: &str, family: &impl Family) -> anyhow::Result<Task> {
        let tree = family.tree()?;
        let start = family.initial(&tree);
        Ok(Task::with_start(name, about, tree, start))
    }

    /// An MDP and a policy to start from.
    pub(crate) fn with_start(
        name: impl Into<String>,
        about: impl Into<String>,
        tree: Tree,
        start: Tabular,
    ) -> Task {
        let (best, start_j) = (Optimal::new(&tree).j, Oracle::new(&tree, &start).j);
        let lengths = || tree.leaves().map(|leaf| tree.leaf_len(leaf));
        let (shortest, longest) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
        Task { name: name.into(), about: about.into(), start, best, start_j, shortest, longest, tree }
    }

    /// True if all responses have one length.
    pub(crate) fn equal_lengths(&self) -> bool {
        self.shortest == self.longest
    }
}

/// The MDPs of `learning`, small enough (under 200 logits) that a step costs microseconds. The first six have ragged lengths.
pub(crate) fn tasks(full: bool) -> anyhow::Result<Vec<Task>> {
    let long_better = zoo::Fork {
        branches: vec![
            zoo::Branch::new("short", 2, 0.8, 0.1),
            zoo::Branch::new("long", 50, 0.9, 0.2),
            zoo::Branch::new("astray", 10, 0.0, 0.7),
        ],
    };
    let random = zoo::Random { rewards: RandomRewards::Probabilities, ..zoo::Random::default() };
    let partial = zoo::Chain { partial: true, ..zoo::Chain::default() };
    let hazard = zoo::EosHazard { horizon: 5, ..zoo::EosHazard::default() };
    let noisy = zoo::Noisy { flip: 0.3, ..zoo::Noisy::default() };
    let mut tasks = vec![
        Task::new("fork", "the short answer is better", &zoo::Fork::default())?,
        Task::new("fork_long", "the long answer is better", &long_better)?,
        Task::new("chain", "the first error ends it", &zoo::Chain::default())?,
        Task::new("chain_partial", "share of right steps", &partial)?,
        Task::new("eos_hazard", "EOS legal everywhere", &hazard)?,
        Task::new("random", "random tree, noisy grades", &random)?,
        Task::new("lucky_guess", "a flawed step may be lucky", &zoo::LuckyGuess::default())?,
        Task::new("deceptive", "good on average, worse at best", &zoo::Deceptive::default())?,
        Task::new("noisy", "30 % of grades are wrong", &noisy)?,
    ];
    if full {
        tasks.push(Task::new("pivot", "one early token decides", &zoo::Pivot::default())?);
        tasks.push(Task::new("parity", "only the last bit counts", &zoo::Parity { bits: 5 })?);
        tasks.push(Task::new("needle", "one rewarded response", &zoo::Needle { symbols: 3, length: 3 })?);
    }
    Ok(tasks)
}

/// For what a run is used. Rates are never chosen on the runs that are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// To choose a learning rate.
    Selection,
    /// To be reported.
    Report,
}

/// The seed of a run's stream.
///
/// ```text
/// s = mix(mix(mix(seed, phase), fnv1a(MDP)), run),   mix(s, x) = splitmix64(s XOR x)
/// ```
/// Method and learning rate are left out on purpose: run `i` of every method draws from the same ChaCha8 stream (common random
/// numbers), so that all methods see the same first group and differences between methods are paired.
pub(crate) fn stream(seed: u64, phase: Phase, mdp: &str, run: usize) -> u64 {
    let name = mdp.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    [phase as u64, name, run as u64].into_iter().fold(seed, |state, x| splitmix64(state ^ x))
}

/// A bijection of 64-bit numbers that scatters neighbours.
pub(crate) fn splitmix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

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

/// The finding that every best rate lies inside the grid, from all choices with the names of their methods and tasks.
pub(crate) fn inside_the_grid<'a>(
    grid: Grid,
    named: impl Iterator<Item = (&'a str, &'a str, &'a Choice)>,
) -> Finding {
    let named: Vec<_> = named.collect();
    let edges = named.iter().filter(|(.., choice)| choice.at_edge);
    let edges: Vec<String> = edges
        .map(|(method, task, choice)| format!("{method} on {task} ({})", significant(choice.rate, 3)))
        .collect();
    let verdict = match edges.len() {
        0 => Verdict::Holds,
        n => Verdict::HoldsWhen(format!(
            "the choice is not among these {n} of {}: {}",
            named.len(),
            edges.join(", ")
        )),
    };
    Finding::new("grid", "Every best learning rate lies inside the grid of learning rates", verdict)
        .value("least rate as a power of 2", grid.low)
        .value("greatest rate as a power of 2", grid.high)
        .value("rates per doubling", grid.per_octave)
        .value("selection runs per rate", grid.seeds)
        .value("grids", named.len())
        .value("grids widened", named.iter().filter(|(.., choice)| choice.widened > 0).count())
        .note(format!(
            "Selection runs have streams that are not reported. The smallest rate within {AS_GOOD} of the best mean area is taken."
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    #[test]
    fn the_trees_are_small_and_most_have_ragged_lengths() {
        for full in [false, true] {
            let tasks = tasks(full).expect("knobs in range");
            assert!(tasks.iter().all(|t| t.tree.edge_count() <= 200 && t.start_j < 0.9 * t.best));
            assert!(tasks.iter().filter(|t| !t.equal_lengths()).count() >= 6);
        }
    }

    #[test]
    fn streams_differ_by_every_part_of_their_name() {
        let base = stream(1, Phase::Report, "fork", 0);
        for other in [
            stream(2, Phase::Report, "fork", 0),
            stream(1, Phase::Selection, "fork", 0),
            stream(1, Phase::Report, "chain", 0),
            stream(1, Phase::Report, "fork", 1),
        ] {
            assert_ne!(base, other);
        }
    }

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
