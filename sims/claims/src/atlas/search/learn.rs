//! Learning curves with weights of a span, at rates tuned on runs that are not reported.

use std::ops::ControlFlow;

use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Coupling, Credit, Loss, Method};
use grpo_lambda_mdp::TabularLearner;
use serde::{Deserialize, Serialize};

use super::quadratic::Token;
use super::spans::Span;
use crate::experiments::common::vectors::dot;
use crate::training;
use crate::training::rates::{Grid, choose};
use crate::training::stream::{Phase, stream};
use crate::training::task::Task;

/// Learning rates tried: powers of 2, more of them where the best is at an end.
const GRID: Grid = Grid { low: -3, high: 10, per_octave: 1, widen: 6, seeds: 0 };

/// A method whose token weights are multiplied with `Σ_j α_j φ_j`.
#[derive(Debug)]
pub(super) struct Weighted {
    pub(super) inner: Box<dyn Method>,
    pub(super) span: &'static Span,
    /// `α`.
    pub(super) alpha: Vec<f64>,
    /// The longest response of the task.
    pub(super) longest: usize,
}

impl Weighted {
    /// The weight of every token of a response.
    fn weights(&self, response: &Response) -> Vec<f64> {
        let entropies = response.evidence.entropies.as_deref().unwrap_or(&[]);
        let weight = |(t, old): (usize, &f64)| {
            let token = Token {
                t,
                len: response.len(),
                entropy: entropies.get(t).copied().unwrap_or(f64::NAN),
                probability: old.exp(),
                longest: self.longest,
                decay: f64::NAN,
            };
            dot(&(self.span.features)(&token), &self.alpha)
        };
        response.old_logps.iter().enumerate().map(weight).collect()
    }
}

impl Method for Weighted {
    fn credit(&self, batch: &[Group]) -> Vec<Credit> {
        let mut credits = self.inner.credit(batch);
        let responses = batch.iter().flat_map(|g| &g.responses);
        for (credit, response) in credits.iter_mut().zip(responses) {
            credit.weights.iter_mut().zip(self.weights(response)).for_each(|(w, x)| *w *= x);
        }
        credits
    }

    fn loss_around(&self, response: &Response, credit: &Credit, logps: &[f64], frozen: &[f64]) -> Loss {
        self.inner.loss_around(response, credit, logps, frozen)
    }

    fn coupling(&self) -> Coupling {
        Coupling::Everything
    }
}

/// Area under `J/J*` over `updates` updates.
pub(super) fn area(task: &Task, method: &dyn Method, rate: f64, updates: usize, stream: u64) -> f64 {
    let mut learner = TabularLearner::new(&task.tree, task.start.clone(), rate, stream).with_evidence();
    let mut before = learner.j();
    let mut area = 0.0;
    training::train(&mut learner, method, updates, |learner| {
        let now = learner.j();
        area += (before + now) / (2.0 * updates as f64 * task.best);
        before = now;
        ControlFlow::Continue(())
    });
    area
}

/// Areas of the reported runs at the best rate.
#[derive(Serialize, Deserialize)]
pub(super) struct Learned {
    pub(super) rate: f64,
    /// True if it lies inside the grid.
    pub(super) inside: bool,
    /// One area per run; run `i` of every method draws from one stream.
    pub(super) areas: Vec<f64>,
}

/// Chooses a rate on `selection` runs and reports `runs` others.
pub(super) fn learn(
    task: &Task,
    method: &dyn Method,
    (selection, runs, updates): (usize, usize, usize),
    seed: u64,
) -> Learned {
    let area = |rate, stream| area(task, method, rate, updates, stream);
    let choice = choose(Grid { seeds: selection, ..GRID }, seed, &task.name, area);
    let reported = |i| area(choice.rate, stream(seed, Phase::Report, &task.name, i));
    Learned { rate: choice.rate, inside: !choice.at_edge, areas: (0..runs).map(reported).collect() }
}

#[cfg(test)]
mod tests {
    use super::super::spans::{UNIFORM, find};
    use super::*;
    use crate::atlas::tasks::tasks;
    use grpo_lambda::methods;

    #[test]
    fn uniform_weights_are_rloo_and_the_length_is_what_the_trace_makes_of_it() {
        let tasks = tasks(false).unwrap();
        let task = tasks.iter().find(|t| t.name == "fork").unwrap();
        let rloo = || methods::parse("rloo", "").unwrap().method;
        let weighted = |name: &str, factor: f64| Weighted {
            inner: rloo(),
            span: find(name).unwrap(),
            alpha: vec![factor],
            longest: task.longest,
        };
        let run = |m: &dyn Method| area(task, m, 1.0, 20, 5);
        assert_eq!(run(rloo().as_ref()), run(&weighted(UNIFORM, 1.0)));
        let own =
            methods::parse("grpo_lambda", "clamp=none scale=none clip=none reduction=response_sum").unwrap();
        // G/(G-1): RLOO's advantages against those centred on the mean of all.
        let ours = run(&weighted("recent 0.99 (GRPO-λ)", 7.0 / 8.0));
        assert!((ours - run(own.method.as_ref())).abs() < 1e-9);
    }
}
