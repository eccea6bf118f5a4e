//! The runs and their statistics.

use super::competitors::{self, Excluded};
use super::ranking::{Standing, order, standings};
use super::results::{Budget, CostAxis, Effort, Run, Trainer, TrainingResults};
use crate::atlas::entries::BASELINE;
use crate::experiment::Context;
use crate::training::{Cell, Grid, Task, mean_of_means};
use grpo_lambda_stats::{Bootstrap, Interval};

#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) effort: Effort,
    /// Ranked tasks at most.
    pub(super) ranked: usize,
    pub(super) resamples: usize,
    /// The longer list of ranked tasks.
    pub(super) all_tasks: bool,
}

impl Size {
    pub(super) fn new(full: bool) -> Size {
        let grid = Grid { low: -3, high: 12, per_octave: 1, widen: 4, seeds: 6 };
        let quick = Size {
            effort: Effort { runs: 32, updates: 48, pieces: 48, grid },
            ranked: usize::MAX,
            resamples: 1000,
            all_tasks: false,
        };
        if !full {
            return quick;
        }
        let grid = Grid { per_octave: 2, seeds: 30, ..grid };
        let effort = Effort { runs: 100, updates: 240, pieces: 120, grid };
        Size { effort, resamples: 4000, all_tasks: true, ..quick }
    }
}

/// Everything that was run, and what the statistics say.
pub(super) struct Ranking {
    pub(super) effort: Effort,
    pub(super) results: TrainingResults,
    pub(super) excluded: Vec<Excluded>,
    /// `[axis][competitor]`, axes as in [`CostAxis`].
    pub(super) standings: [Vec<Standing>; 2],
    /// Competitors, best against responses first.
    pub(super) order: Vec<usize>,
    pub(super) bootstrap: Bootstrap,
}

pub(super) fn measure(context: &Context, size: &Size) -> anyhow::Result<Ranking> {
    let mut named = competitors::named(size.all_tasks)?;
    named.truncate(size.ranked);
    let (competitors, excluded) = competitors::all(&named[0])?;
    let trainer = Trainer { ctx: context, effort: size.effort };
    let done = context.pieces(0.0..0.9, competitors.len() * named.len());
    let tick = || done("training");
    let results = TrainingResults::run(&trainer, named, competitors, &tick)?;
    let bootstrap = Bootstrap { resamples: size.resamples, seed: context.seed, ..Bootstrap::default() };
    (context.progress)(0.9, "intervals");
    let placed = |axis: CostAxis| {
        let scores = results.scores(|run| run.area[axis as usize]);
        standings(&scores, bootstrap).ok_or_else(|| anyhow::anyhow!("too few runs for an interval"))
    };
    let (responses, tokens) = rayon::join(|| placed(CostAxis::Responses), || placed(CostAxis::Tokens));
    let standings = [responses?, tokens?];
    let order = order(&standings[CostAxis::Responses as usize]);
    Ok(Ranking { effort: size.effort, results, excluded, standings, order, bootstrap })
}

impl Ranking {
    pub(super) fn name(&self, competitor: usize) -> String {
        self.results.competitors[competitor].name()
    }

    pub(super) fn standing(&self, competitor: usize, axis: CostAxis) -> &Standing {
        &self.standings[axis as usize][competitor]
    }

    /// Share of the budget spent to reach 90 % of `J*`, 1 for a run that does not reach it: mean over tasks of the mean over runs.
    pub(super) fn spent(&self, competitor: usize, axis: CostAxis) -> Option<Interval> {
        let shares = |(cell, task): (&Cell<Run>, &Task)| {
            let budget = Budget::new(task, self.effort.updates, 0).spend[axis as usize];
            cell.scores(|run| run.learned[axis as usize].map_or(1.0, |x| x / budget))
        };
        let cells = self.results.cells[competitor].iter().zip(&self.results.tasks);
        self.bootstrap.interval(&cells.map(shares).collect::<Vec<_>>(), mean_of_means)
    }

    /// The share of runs that reach 90 % of `J*` within the budget of responses.
    pub(super) fn share_learned(&self, competitor: usize) -> f64 {
        let runs = || self.results.cells[competitor].iter().flat_map(|cell| &cell.runs);
        runs().filter(|run| run.learned[0].is_some()).count() as f64 / runs().count() as f64
    }
}

/// The variants of GRPO-lambda; the first is the headline's.
pub(super) const VARIANTS: [&str; 4] =
    ["GRPO-λ recent", "GRPO-λ both", "GRPO-λ recent, no clamp", "GRPO-λ both, no clamp"];

/// The methods whose curves are drawn and kept.
pub(super) fn drawn(r: &Ranking) -> Vec<usize> {
    let names = [BASELINE, VARIANTS[0], "RLOO", "TEMPO", "VinePPO, K = 8", "PPO, exact critic"];
    names.iter().filter_map(|name| r.results.find(name)).collect()
}

/// A kept curve: what was spent, and `J/J*` as the mean over runs.
pub(super) fn curve(r: &Ranking, c: usize, t: usize, axis: CostAxis) -> Vec<(f64, Interval)> {
    let budget = Budget::new(&r.results.tasks[t], r.effort.updates, r.effort.pieces);
    let kept: fn(&Run) -> &[f64] = match axis {
        CostAxis::Responses => |run| &run.curve[0],
        CostAxis::Tokens => |run| &run.curve[1],
    };
    let points = r.results.cells[c][t].curve(r.bootstrap, kept).unwrap_or_default();
    let spent = |i: usize| budget.spend[axis as usize] * i as f64 / budget.pieces as f64;
    points.into_iter().enumerate().map(|(i, j)| (spent(i), j)).collect()
}
