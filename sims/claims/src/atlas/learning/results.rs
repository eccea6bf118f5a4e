//! Everything that is run: a run charged in responses and in tokens, learning rates chosen, then the runs that are reported. Each piece of work is kept by the store.

use super::competitors::Competitor;
use super::learner::MeteredLearner;
use crate::experiment::Context;
use crate::training::{self, Cell, Choice, GROUP, Grid, LEARNED, Phase, Task, choose, crossed, stream};
use grpo_lambda::methods::Method;
use grpo_lambda_mdp::Oracle;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Runs of each piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Reported runs per method and task.
    pub(super) runs: usize,
    /// Updates at most per run.
    pub(super) updates: usize,
    /// Pieces of a kept curve.
    pub(super) pieces: usize,
    /// The grid of learning rates, the same for every method and task.
    pub(super) grid: Grid,
}

/// Chooses learning rates and trains; the store keeps each piece of work.
pub(super) struct Trainer<'a> {
    pub(super) ctx: &'a Context<'a>,
    pub(super) effort: Effort,
}

impl Trainer<'_> {
    fn budget(&self, task: &Task) -> Budget {
        Budget::new(task, self.effort.updates, self.effort.pieces)
    }

    /// The best rate of a method on a task, by its area against responses on selection runs.
    pub(super) fn choose(&self, who: &Competitor, task: &Task) -> anyhow::Result<Choice> {
        let work = || {
            let method = who.build(task)?;
            let budget = self.budget(task).responses_only();
            let area =
                |rate: f64, stream: u64| train(task, method.as_ref(), who, rate, budget, stream).area[0];
            Ok(choose(self.effort.grid, self.ctx.seed, &task.name, area))
        };
        self.ctx.store.piece(&format!("rate/{}/{}", who.name(), task.name), work)
    }

    /// The reported runs of a method on a task at a rate.
    pub(super) fn report(&self, who: &Competitor, task: &Task, rate: f64) -> anyhow::Result<Cell<Run>> {
        let work = || {
            let method = who.build(task)?;
            let run = |i: usize| {
                let stream = stream(self.ctx.seed, Phase::Report, &task.name, i);
                train(task, method.as_ref(), who, rate, self.budget(task), stream)
            };
            Ok((0..self.effort.runs).map(run).collect())
        };
        let runs = self.ctx.store.piece(&format!("runs/{}/{}/{rate:e}", who.name(), task.name), work)?;
        Ok(Cell { rate, runs })
    }
}

/// Competitors, tasks, and every competitor's runs on every task at its tuned rate.
pub(super) struct TrainingResults {
    /// On what is learned.
    pub(super) tasks: Vec<Task>,
    /// Baseline first.
    pub(super) competitors: Vec<Competitor>,
    /// `[competitor][task]`.
    pub(super) choices: Vec<Vec<Choice>>,
    /// `[competitor][task]`.
    pub(super) cells: Vec<Vec<Cell<Run>>>,
}

impl TrainingResults {
    /// Chooses rates and runs everything; `tick` is called after each competitor's task.
    pub(super) fn run(
        trainer: &Trainer,
        tasks: Vec<Task>,
        competitors: Vec<Competitor>,
        tick: &(dyn Fn() + Sync),
    ) -> anyhow::Result<TrainingResults> {
        let piece = |c: usize, t: usize| -> anyhow::Result<(Choice, Cell<Run>)> {
            let choice = trainer.choose(&competitors[c], &tasks[t])?;
            let cell = trainer.report(&competitors[c], &tasks[t], choice.rate)?;
            tick();
            Ok((choice, cell))
        };
        let done = crossed(competitors.len(), tasks.len(), piece)?;
        let (choices, cells) = done.into_iter().map(|of| of.into_iter().unzip()).unzip();
        Ok(TrainingResults { choices, cells, tasks, competitors })
    }

    /// A number of every run: `[competitor][task][run]`.
    pub(super) fn scores(&self, of: impl Fn(&Run) -> f64) -> Vec<Vec<Vec<f64>>> {
        self.cells.iter().map(|row| row.iter().map(|cell| cell.scores(&of)).collect()).collect()
    }

    /// The index of an entry by its name; where it takes part twice, the first.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.competitors.iter().position(|c| c.entry.name == name)
    }
}

/// The budget of a run. It goes on until both budgets are spent, but for `updates` updates at most; after its last update it keeps
/// its `J`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Updates at most: what a method that samples groups only makes of the budget of responses.
    pub(super) updates: usize,
    /// Responses, and tokens.
    pub(super) spend: [f64; 2],
    /// Pieces of the kept curves.
    pub(super) pieces: usize,
}

impl Budget {
    /// `updates` groups of responses, and the tokens that as many responses of the initial policy have on average.
    pub(super) fn new(task: &Task, updates: usize, pieces: usize) -> Budget {
        let responses = (updates * GROUP) as f64;
        let length = Oracle::new(&task.tree, &task.start).mean_length();
        Budget { updates, spend: [responses, responses * length], pieces }
    }

    /// The budget of responses alone: a run ends when they are spent.
    pub(super) fn responses_only(self) -> Budget {
        Budget { spend: [self.spend[0], 0.0], pieces: 0, ..self }
    }
}

/// Against what a curve is drawn: the index into [`Budget::spend`] and everything per axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CostAxis {
    /// Responses sampled, fresh completions included.
    Responses = 0,
    /// Tokens sampled for them, and tokens scored by a teacher.
    Tokens = 1,
}

impl CostAxis {
    pub(super) const ALL: [CostAxis; 2] = [CostAxis::Responses, CostAxis::Tokens];

    pub(super) fn name(self) -> &'static str {
        match self {
            CostAxis::Responses => "responses",
            CostAxis::Tokens => "tokens",
        }
    }
}

/// The outcome of a run; every `J` is a share of `J*`. Arrays are indexed by [`CostAxis`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    /// Mean of `J/J*` over the budget: the area under the learning curve, which rises when an update is done.
    pub(super) area: [f64; 2],
    /// Spent when `J >= 0.9 J*` for the first time, if within the budget.
    pub(super) learned: [Option<f64>; 2],
    /// `J/J*` after the last update.
    pub(super) last: f64,
    pub(super) updates: usize,
    /// `J/J*` at `pieces + 1` equally distant points of the budget.
    pub(super) curve: [Vec<f64>; 2],
}

/// `J/J*` as a step function of what was spent: the policy that a budget has bought.
struct Steps {
    /// Spent before each policy, from 0.
    at: Vec<[f64; 2]>,
    /// `J/J*` of each policy.
    j: Vec<f64>,
}

impl Steps {
    fn area(&self, axis: usize, budget: f64) -> f64 {
        if budget <= 0.0 {
            return 0.0;
        }
        let end = |i: usize| self.at.get(i + 1).map_or(budget, |x| x[axis].min(budget));
        let piece = |i: usize| self.j[i] * (end(i) - self.at[i][axis].min(budget));
        (0..self.j.len()).map(piece).sum::<f64>() / budget
    }

    fn value(&self, axis: usize, spent: f64) -> f64 {
        let last = self.at.iter().rposition(|x| x[axis] <= spent);
        self.j[last.unwrap_or(0)]
    }

    fn learned(&self, axis: usize, budget: f64) -> Option<f64> {
        let first = self.j.iter().position(|&j| j >= LEARNED)?;
        Some(self.at[first][axis]).filter(|&x| x <= budget)
    }
}

/// Trains from the task's initial policy: one group of [`GROUP`] responses and one gradient step per update.
fn train(task: &Task, method: &dyn Method, who: &Competitor, rate: f64, budget: Budget, stream: u64) -> Run {
    let mut learner = MeteredLearner::new(task, who, rate, stream);
    let mut steps = Steps { at: vec![[0.0; 2]], j: vec![learner.j() / task.best] };
    let mut updates = 0;
    training::train(&mut learner, method, budget.updates, |learner| {
        updates += 1;
        let cost = learner.cost();
        let spent = [cost.responses as f64, cost.tokens as f64];
        steps.at.push(spent);
        steps.j.push(learner.j() / task.best);
        let all = spent[0] >= budget.spend[0] && spent[1] >= budget.spend[1];
        if all { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let curve = |axis: usize| {
        let point = |i: usize| steps.value(axis, budget.spend[axis] * i as f64 / budget.pieces as f64);
        if budget.pieces == 0 { Vec::new() } else { (0..=budget.pieces).map(point).collect() }
    };
    Run {
        area: [0, 1].map(|axis| steps.area(axis, budget.spend[axis])),
        learned: [0, 1].map(|axis| steps.learned(axis, budget.spend[axis])),
        last: steps.j[steps.j.len() - 1],
        updates,
        curve: [0, 1].map(curve),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_points_and_first_times_by_hand() {
        // J 0.2 until 8 responses are spent, 0.5 until 16, then 0.95.
        let steps = Steps { at: vec![[0.0, 0.0], [8.0, 10.0], [16.0, 40.0]], j: vec![0.2, 0.5, 0.95] };
        assert!((steps.area(0, 32.0) - (0.2 * 8.0 + 0.5 * 8.0 + 0.95 * 16.0) / 32.0).abs() < 1e-15);
        assert!((steps.area(1, 20.0) - (0.2 * 10.0 + 0.5 * 10.0) / 20.0).abs() < 1e-15);
        assert!((steps.area(0, 4.0) - 0.2).abs() < 1e-15);
        assert_eq!([0.0, 7.9, 8.0, 20.0].map(|x| steps.value(0, x)), [0.2, 0.2, 0.5, 0.95]);
        assert_eq!((steps.learned(0, 16.0), steps.learned(1, 39.0)), (Some(16.0), None));
    }

    #[test]
    fn a_run_spends_its_budgets_and_no_more_updates_than_allowed() {
        let task = &training::tasks(false).unwrap()[0];
        let who = &super::super::competitors::all(task).unwrap().0[0];
        let method = who.build(task).unwrap();
        let budget = Budget::new(task, 5, 4);
        let run = train(task, method.as_ref(), who, 0.5, budget, 1);
        assert_eq!((run.updates, run.curve[0].len()), (5, 5));
        assert_eq!(run.curve[0][0], task.start_j / task.best);
        // Responses are all spent at the last update, so the last point of the curve is the last policy.
        assert_eq!(run.curve[0][4], run.last);
        let short = train(task, method.as_ref(), who, 0.5, budget.responses_only(), 1);
        assert_eq!((short.area[0], short.updates), (run.area[0], 5));
    }
}
