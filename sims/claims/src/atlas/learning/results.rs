//! Everything that is run: learning rates chosen, then the runs that are reported. Each piece of work is kept by the store.

use rayon::prelude::*;

use super::competitors::Competitor;
use super::run::{Budget, Run, train};
use crate::experiment::Context;
use crate::training::rates::{Choice, Grid, choose};
use crate::training::stream::{Phase, stream};
use crate::training::task::Task;

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

/// The runs of one method on one task at one rate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) rate: f64,
    /// The runs, in the order of their streams.
    pub(super) runs: Vec<Run>,
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
    pub(super) fn report(&self, who: &Competitor, task: &Task, rate: f64) -> anyhow::Result<Cell> {
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

/// Competitors, tasks, and every competitor's runs on every task at its own best rate.
pub(super) struct TrainingResults {
    /// On what is learned.
    pub(super) tasks: Vec<Task>,
    /// Baseline first.
    pub(super) competitors: Vec<Competitor>,
    /// `[competitor][task]`.
    pub(super) choices: Vec<Vec<Choice>>,
    /// `[competitor][task]`.
    pub(super) cells: Vec<Vec<Cell>>,
}

impl TrainingResults {
    /// Chooses rates and runs everything; `tick` is called after each competitor's task.
    pub(super) fn run(
        trainer: &Trainer,
        tasks: Vec<Task>,
        competitors: Vec<Competitor>,
        tick: &(dyn Fn() + Sync),
    ) -> anyhow::Result<TrainingResults> {
        let pairs: Vec<(usize, usize)> =
            (0..competitors.len()).flat_map(|c| (0..tasks.len()).map(move |t| (c, t))).collect();
        let piece = |&(c, t): &(usize, usize)| -> anyhow::Result<(Choice, Cell)> {
            let choice = trainer.choose(&competitors[c], &tasks[t])?;
            let cell = trainer.report(&competitors[c], &tasks[t], choice.rate)?;
            tick();
            Ok((choice, cell))
        };
        let done = pairs.par_iter().map(piece).collect::<anyhow::Result<Vec<_>>>()?;
        let (choices, cells): (Vec<Choice>, Vec<Cell>) = done.into_iter().unzip();
        Ok(TrainingResults {
            choices: choices.chunks(tasks.len()).map(<[Choice]>::to_vec).collect(),
            cells: cells.chunks(tasks.len()).map(<[Cell]>::to_vec).collect(),
            tasks,
            competitors,
        })
    }

    /// A number of every run: `[competitor][task][run]`.
    pub(super) fn scores(&self, of: impl Fn(&Run) -> f64) -> Vec<Vec<Vec<f64>>> {
        let cell = |cell: &Cell| cell.runs.iter().map(&of).collect();
        self.cells.iter().map(|row| row.iter().map(cell).collect()).collect()
    }

    /// The index of an entrant by its name; where it takes part twice, as it stands in the list of entrants.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.competitors.iter().position(|c| c.entrant.name == name && !c.unit_mean)
    }
}
