//! All runs of the comparison, and their statistics.

use super::reading::Reading;
use crate::training::{self, GROUP, LEARNED, Phase, Task, mean_of_means, paired, stream};
use grpo_lambda::methods::Method;
use grpo_lambda_mdp::TabularLearner;
use grpo_lambda_stats::{Bootstrap, Interval, OverTasks, probability_of_improvement};
use rayon::prelude::*;
use std::ops::ControlFlow;

/// The learning rate at which methods meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Regime {
    /// GRPO's best rate on the MDP, for all.
    Equal,
    /// A sixteenth of it, for all: a cautious rate.
    Cautious,
    /// Each its own best rate.
    OwnBest,
    /// GRPO's best rate, with the weights of every response normalised to mean 1.
    UnitMean,
}

impl Regime {
    /// In the order of tables.
    pub(super) const ALL: [Regime; 4] = [Regime::Equal, Regime::Cautious, Regime::OwnBest, Regime::UnitMean];

    /// The name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Regime::Equal => "equal_rate",
            Regime::Cautious => "equal_rate_16th",
            Regime::OwnBest => "own_best_rate",
            Regime::UnitMean => "unit_mean_weight",
        }
    }

    /// The regime whose GRPO a method is compared with; GRPO's weights are all 1.
    fn of_baseline(self) -> Regime {
        if self == Regime::UnitMean { Regime::Equal } else { self }
    }
}

/// The runs of one method on one MDP under one regime.
pub(super) struct Cell {
    /// The learning rate.
    pub(super) rate: f64,
    /// The runs, in the order of their streams.
    pub(super) runs: Vec<Run>,
}

/// All runs: `cells[regime][reading][task]`, `None` if a reading has no place in a regime.
pub(super) struct Scores {
    cells: Vec<Vec<Vec<Option<Cell>>>>,
    bootstrap: Bootstrap,
}

/// One score of a run.
type Score = fn(&Run) -> f64;

impl Scores {
    /// No runs at all.
    #[cfg(test)]
    pub(super) fn none() -> Scores {
        Scores { cells: Vec::new(), bootstrap: Bootstrap::default() }
    }

    /// Trains everything that is reported: `best[reading][task]` are the chosen rates, `tick` is called after each cell.
    pub(super) fn train(
        tasks: &[Task],
        readings: &[Reading],
        best: &[Vec<f64>],
        (runs, plan, seed): (usize, Plan, u64),
        bootstrap: Bootstrap,
        tick: &(dyn Fn() + Sync),
    ) -> anyhow::Result<Scores> {
        let rate = |regime, reading: usize, task: usize| match regime {
            Regime::OwnBest => best[reading][task],
            Regime::Equal | Regime::UnitMean => best[0][task],
            Regime::Cautious => best[0][task] / 16.0,
        };
        let wanted = |regime, reading: &Reading| regime != Regime::UnitMean || reading.has_unit_mean;
        let cell = |(regime, reading, task): (Regime, usize, usize)| -> anyhow::Result<Option<Cell>> {
            if !wanted(regime, &readings[reading]) {
                return Ok(None);
            }
            let method = readings[reading].build(&tasks[task], regime == Regime::UnitMean)?;
            let rate = rate(regime, reading, task);
            let run = |i| {
                train(
                    &tasks[task],
                    method.as_ref(),
                    rate,
                    plan,
                    stream(seed, Phase::Report, &tasks[task].name, i),
                )
            };
            let runs = (0..runs).map(run).collect();
            tick();
            Ok(Some(Cell { rate, runs }))
        };
        let cells = Regime::ALL
            .into_iter()
            .map(|regime| {
                let of_reading = |reading: usize| {
                    (0..tasks.len()).into_par_iter().map(|task| cell((regime, reading, task))).collect()
                };
                (0..readings.len()).into_par_iter().map(of_reading).collect()
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Scores { cells, bootstrap })
    }

    /// The cell, if the reading has a place in the regime.
    pub(super) fn cell(&self, regime: Regime, reading: usize, task: usize) -> Option<&Cell> {
        self.cells[regime as usize][reading][task].as_ref()
    }

    /// A score of every run on the given tasks, one stratum per task.
    fn strata(
        &self,
        regime: Regime,
        reading: usize,
        tasks: std::ops::Range<usize>,
        score: Score,
    ) -> Option<Vec<Vec<f64>>> {
        let runs = |task| Some(self.cell(regime, reading, task)?.runs.iter().map(score).collect());
        tasks.map(runs).collect()
    }

    /// The mean of a score over the runs of each task, averaged over tasks.
    pub(super) fn level(
        &self,
        regime: Regime,
        reading: usize,
        tasks: std::ops::Range<usize>,
        score: Score,
    ) -> Option<Interval> {
        let x = self.strata(regime, reading, tasks, score)?;
        self.bootstrap.interval(&x, mean_of_means)
    }

    /// A contrast of two levels, the reading's and that of GRPO in the same regime, with runs drawn in pairs that share
    /// their stream.
    pub(super) fn contrast(
        &self,
        regime: Regime,
        reading: usize,
        tasks: std::ops::Range<usize>,
        score: Score,
        of: impl Fn(f64, f64) -> f64 + Sync,
    ) -> Option<Interval> {
        let x = self.strata(regime, reading, tasks.clone(), score)?;
        let y = self.strata(regime.of_baseline(), 0, tasks, score)?;
        paired(self.bootstrap, &x, &y, of)
    }

    /// The difference of the area to GRPO's in the same regime.
    pub(super) fn gain(
        &self,
        regime: Regime,
        reading: usize,
        tasks: std::ops::Range<usize>,
    ) -> Option<Interval> {
        self.contrast(regime, reading, tasks, |run| run.area, |x, y| x - y)
    }

    /// [`level`](Scores::level) without its interval.
    pub(super) fn point(
        &self,
        regime: Regime,
        reading: usize,
        tasks: std::ops::Range<usize>,
        score: Score,
    ) -> Option<f64> {
        self.strata(regime, reading, tasks, score).map(|x| mean_of_means(&x))
    }

    /// The probability that a run of the reading has a greater area than one of GRPO in the same regime.
    pub(super) fn improvement(
        &self,
        regime: Regime,
        reading: usize,
        tasks: std::ops::Range<usize>,
    ) -> Option<Interval> {
        let x = self.strata(regime, reading, tasks.clone(), |run| run.area)?;
        let y = self.strata(regime.of_baseline(), 0, tasks, |run| run.area)?;
        self.bootstrap.probability_of_improvement(&x, &y)
    }

    /// [`improvement`](Scores::improvement) on one task, without its interval.
    pub(super) fn improvement_point(&self, regime: Regime, reading: usize, task: usize) -> Option<f64> {
        let x = self.strata(regime, reading, task..task + 1, |run| run.area)?;
        let y = self.strata(regime.of_baseline(), 0, task..task + 1, |run| run.area)?;
        probability_of_improvement(&x, &y)
    }

    /// The kept learning curve: mean over runs at each point.
    pub(super) fn curve(&self, regime: Regime, reading: usize, task: usize) -> Option<Vec<Interval>> {
        let runs = &self.cell(regime, reading, task)?.runs;
        // The band of a curve needs fewer resamples than a number that is reported.
        let bootstrap = Bootstrap { resamples: self.bootstrap.resamples / 4, ..self.bootstrap };
        let at =
            |i: usize| bootstrap.interval(&[runs.iter().map(|run| run.curve[i]).collect()], mean_of_means);
        (0..runs[0].curve.len()).into_par_iter().map(at).collect()
    }

    /// The comparison with GRPO over all tasks.
    pub(super) fn overall(&self, regime: Regime, reading: usize) -> Option<Overall> {
        let tasks = self.cells[0][0].len();
        let (all, area): (_, Score) = (0..tasks, |run| run.area);
        let gains: Vec<Interval> =
            (0..tasks).map(|t| self.gain(regime, reading, t..t + 1)).collect::<Option<_>>()?;
        let percent = |x: f64, y: f64| 100.0 * (x / y - 1.0);
        Some(Overall {
            area: self.level(regime, reading, all.clone(), area)?,
            gain: self.gain(regime, reading, all.clone())?,
            percent: self.contrast(regime, reading, all.clone(), area, percent)?,
            improvement: self.improvement(regime, reading, all.clone())?,
            last: self.point(regime, reading, all, |run| run.last)?,
            better: (0..tasks).filter(|&t| gains[t].low > 0.0).collect(),
            worse: (0..tasks).filter(|&t| gains[t].high < 0.0).collect(),
            over_tasks: OverTasks::new(&gains.iter().map(|g| g.mid).collect::<Vec<_>>())?,
            gains,
        })
    }
}

/// One method against GRPO under one regime.
pub(super) struct Overall {
    /// Area under the curve, mean over tasks of the mean.
    pub(super) area: Interval,
    /// Its difference to GRPO's.
    pub(super) gain: Interval,
    /// Its difference in percent of GRPO's.
    pub(super) percent: Interval,
    /// The probability that a run has a greater area than one of GRPO.
    pub(super) improvement: Interval,
    /// `J/J*` after the last update.
    pub(super) last: f64,
    /// The difference with the tasks as the sample.
    pub(super) over_tasks: OverTasks,
    /// The difference to GRPO's area on each task.
    pub(super) gains: Vec<Interval>,
    /// The tasks on which the interval of the gain lies above 0.
    pub(super) better: Vec<usize>,
    /// The tasks on which it lies below.
    pub(super) worse: Vec<usize>,
}

impl Cell {
    /// The median over runs of the responses until `J >= 0.9 J*`; `None` if most runs never get there.
    pub(super) fn median_learned(&self) -> Option<f64> {
        let mut at: Vec<f64> = self.runs.iter().map(|run| run.learned.unwrap_or(f64::INFINITY)).collect();
        at.sort_by(f64::total_cmp);
        let median = (at[(at.len() - 1) / 2] + at[at.len() / 2]) / 2.0;
        median.is_finite().then_some(median)
    }

    /// The share of runs that get there.
    pub(super) fn share_learned(&self) -> f64 {
        self.runs.iter().filter(|run| run.learned.is_some()).count() as f64 / self.runs.len() as f64
    }
}

/// The scores of a run; every value is a share of `J*`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    /// `J/J*` at every [`Plan::every`]-th update, from the initial policy to the last.
    pub(super) curve: Vec<f64>,
    /// Mean of `J/J*` over responses sampled, by trapezoids between updates: the area under the learning curve.
    pub(super) area: f64,
    /// `J/J*` after the last update.
    pub(super) last: f64,
    /// Responses sampled until `J >= 0.9 J*` for the first time.
    pub(super) learned: Option<f64>,
}

/// The length of a run and the density of its curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Updates per run.
    pub(super) updates: usize,
    /// Updates between two points of the kept curve; divides `updates`.
    pub(super) every: usize,
}

/// Trains from the task's initial policy: one group of [`GROUP`] responses and one gradient step per update.
pub(super) fn train(task: &Task, method: &dyn Method, rate: f64, plan: Plan, stream: u64) -> Run {
    let mut learner = TabularLearner::new(&task.tree, task.start.clone(), rate, stream);
    let mut j = learner.j() / task.best;
    let mut run = Run { curve: vec![j], area: 0.0, last: j, learned: None };
    let mut update = 0;
    training::train(&mut learner, method, plan.updates, |learner| {
        update += 1;
        let next = learner.j() / task.best;
        run.area += (j + next) / (2.0 * plan.updates as f64);
        j = next;
        if update % plan.every == 0 {
            run.curve.push(j);
        }
        if run.learned.is_none() && j >= LEARNED {
            run.learned = Some((update * GROUP) as f64);
        }
        ControlFlow::Continue(())
    });
    run.last = j;
    run
}
