//! All runs of the comparison, and their statistics.

use super::variant::Variant;
use crate::training::{self, Cell, GROUP, LEARNED, Phase, Task, crossed, mean_of_means, paired, stream};
use grpo_lambda::methods::Method;
use grpo_lambda_mdp::TabularLearner;
use grpo_lambda_stats::{Bootstrap, Interval, OverTasks, probability_of_improvement};
use std::ops::{ControlFlow, Range};

/// The learning rate at which methods meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Regime {
    /// GRPO's best rate on the MDP, for all.
    Equal,
    /// A sixteenth of it, for all: a cautious rate.
    Cautious,
    /// Each its tuned rate.
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

/// All runs: `cells[regime][variant][task]`, `None` if a variant has no place in a regime.
pub(super) struct Scores {
    cells: Vec<Vec<Vec<Option<Cell<Run>>>>>,
    bootstrap: Bootstrap,
}

pub(super) type Score = fn(&Run) -> f64;
/// A variant under a regime.
pub(super) type Key = (Regime, usize);

const AREA: Score = |run| run.area;

impl Scores {
    /// No runs at all.
    #[cfg(test)]
    pub(super) fn none() -> Scores {
        Scores { cells: Vec::new(), bootstrap: Bootstrap::default() }
    }

    /// Trains everything that is reported: `best[variant][task]` are the chosen rates, `tick` is called after each cell.
    pub(super) fn train(
        tasks: &[Task],
        variants: &[Variant],
        best: &[Vec<f64>],
        (runs, plan, seed): (usize, Plan, u64),
        bootstrap: Bootstrap,
        tick: &(dyn Fn() + Sync),
    ) -> anyhow::Result<Scores> {
        let mut scores = Scores { cells: Vec::new(), bootstrap };
        for regime in Regime::ALL {
            let unit = regime == Regime::UnitMean;
            let cell = |variant: usize, t: usize| -> anyhow::Result<Option<Cell<Run>>> {
                if unit && !variants[variant].has_unit_mean {
                    return Ok(None);
                }
                let rate = match regime {
                    Regime::OwnBest => best[variant][t],
                    Regime::Equal | Regime::UnitMean => best[0][t],
                    Regime::Cautious => best[0][t] / 16.0,
                };
                let runs = match scores.known(unit, variant, t, rate) {
                    Some(known) => known.to_vec(),
                    None => train_all(&tasks[t], &variants[variant], unit, rate, (runs, plan, seed))?,
                };
                tick();
                Ok(Some(Cell { rate, runs }))
            };
            let of_regime = crossed(variants.len(), tasks.len(), cell)?;
            scores.cells.push(of_regime);
        }
        Ok(scores)
    }

    /// The runs of a variant at a rate, with weights of mean 1 or its own, where a regime has them.
    fn known(&self, unit: bool, variant: usize, task: usize, rate: f64) -> Option<&[Run]> {
        let regimes = Regime::ALL.iter().zip(&self.cells).filter(|(r, _)| (**r == Regime::UnitMean) == unit);
        let mut cells = regimes.filter_map(|(_, cells)| cells[variant][task].as_ref());
        cells.find(|cell| cell.rate == rate).map(|cell| cell.runs.as_slice())
    }

    /// The cell, if the variant has a place in the regime.
    pub(super) fn cell(&self, (regime, variant): Key, task: usize) -> Option<&Cell<Run>> {
        self.cells[regime as usize][variant][task].as_ref()
    }

    /// A score of every run on the given tasks, one stratum per task.
    fn strata(&self, of: Key, tasks: Range<usize>, score: Score) -> Option<Vec<Vec<f64>>> {
        tasks.map(|task| Some(self.cell(of, task)?.scores(score))).collect()
    }

    /// A score of the variant's runs and of those of GRPO in the same regime.
    fn both(&self, of: Key, tasks: Range<usize>, score: Score) -> Option<[Vec<Vec<f64>>; 2]> {
        let x = self.strata(of, tasks.clone(), score)?;
        Some([x, self.strata((of.0.of_baseline(), 0), tasks, score)?])
    }

    /// The mean of a score over the runs of each task, averaged over tasks.
    pub(super) fn level(&self, of: Key, tasks: Range<usize>, score: Score) -> Option<Interval> {
        self.bootstrap.interval(&self.strata(of, tasks, score)?, mean_of_means)
    }

    /// A contrast of the variant's area and that of GRPO in the same regime, with runs drawn in pairs that share their stream.
    fn contrast(
        &self,
        of: Key,
        tasks: Range<usize>,
        by: impl Fn(f64, f64) -> f64 + Sync,
    ) -> Option<Interval> {
        let [x, y] = self.both(of, tasks, AREA)?;
        paired(self.bootstrap, &x, &y, by)
    }

    /// [`level`](Scores::level) without its interval.
    pub(super) fn point(&self, of: Key, tasks: Range<usize>, score: Score) -> Option<f64> {
        self.strata(of, tasks, score).map(|x| mean_of_means(&x))
    }

    /// The probability on one task that a run of the variant has a greater area than one of GRPO in the same regime.
    pub(super) fn improvement(&self, of: Key, task: usize) -> Option<f64> {
        let [x, y] = self.both(of, task..task + 1, AREA)?;
        probability_of_improvement(&x, &y)
    }

    /// The kept learning curve: mean over runs at each point.
    pub(super) fn curve(&self, of: Key, task: usize) -> Option<Vec<Interval>> {
        self.cell(of, task)?.curve(self.bootstrap, |run| &run.curve)
    }

    /// The comparison with GRPO over all tasks.
    pub(super) fn overall(&self, of: Key) -> Option<Overall> {
        let tasks = self.cells[0][0].len();
        let all = 0..tasks;
        let gain = |tasks| self.contrast(of, tasks, |x, y| x - y);
        let gains: Vec<Interval> = all.clone().map(|t| gain(t..t + 1)).collect::<Option<_>>()?;
        let [x, y] = self.both(of, all.clone(), AREA)?;
        Some(Overall {
            area: self.level(of, all.clone(), AREA)?,
            gain: gain(all.clone())?,
            percent: self.contrast(of, all.clone(), |x, y| 100.0 * (x / y - 1.0))?,
            improvement: self.bootstrap.probability_of_improvement(&x, &y)?,
            last: self.point(of, all, |run| run.last)?,
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

/// The first `runs` reported runs of a variant on a task at a rate, with weights of mean 1 or its own.
fn train_all(
    task: &Task,
    variant: &Variant,
    unit: bool,
    rate: f64,
    (runs, plan, seed): (usize, Plan, u64),
) -> anyhow::Result<Vec<Run>> {
    let method = variant.build(task, unit)?;
    let run = |i| train(task, method.as_ref(), rate, plan, stream(seed, Phase::Report, &task.name, i));
    Ok((0..runs).map(run).collect())
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
