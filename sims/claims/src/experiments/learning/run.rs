//! One run of training, and its scores.

use std::ops::ControlFlow;

use grpo_lambda::methods::Method;
use grpo_lambda_mdp::TabularLearner;

use crate::training::task::Task;
use crate::training::{self, GROUP, LEARNED};

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
