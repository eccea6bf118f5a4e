//! Training of tabular policies: tasks, streams of random numbers, one run, the choice of learning rates, paired differences.

pub(crate) mod rates;
pub(crate) mod stream;
pub(crate) mod task;

use std::convert::Infallible;
use std::ops::ControlFlow;

use grpo_lambda::learner::{Samples, iterate};
use grpo_lambda::methods::Method;
use grpo_lambda_stats::{Bootstrap, Interval, mean};

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
