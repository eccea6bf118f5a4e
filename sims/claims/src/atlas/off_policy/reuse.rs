//! The worth of a sampled batch after `k` updates on it: the exact `J`, over many batches.

use grpo_lambda::learner::{Samples, update};
use grpo_lambda::methods::Method;
use grpo_lambda_mdp::TabularLearner;
use grpo_lambda_stats::{Interval, t_interval};

use super::cases::UPDATES;
use super::pairs::divergence;
use crate::training::GROUP;
use crate::training::task::Task;

/// Gains of one method on one task; index `k-1` is after `k` updates.
pub(super) struct Reuse {
    /// Mean of `J - J_0` with its 95 % t-interval.
    pub(super) gain: Vec<Interval>,
    /// Mean `KL(sampler || updated)` in nats per response.
    pub(super) kl: Vec<f64>,
    /// Mean of `J` after all updates minus `J` after the first.
    pub(super) more: Interval,
}

/// Updates `batches` batches of their own, each [`UPDATES`] times, at learning rate `rate`.
pub(super) fn reuse(task: &Task, method: &dyn Method, rate: f64, batches: usize, seed: u64) -> Option<Reuse> {
    let mut gains = vec![Vec::new(); UPDATES];
    let mut kl = vec![0.0; UPDATES];
    for i in 0..batches {
        let stream = seed.wrapping_mul(1_000_003).wrapping_add(i as u64);
        let mut learner = TabularLearner::new(&task.tree, task.start.clone(), rate, stream).with_evidence();
        let before = learner.j();
        let Ok(batch) = learner.sample(&[()], GROUP);
        for k in 0..UPDATES {
            let Ok(_) = update(&mut learner, method, &[()], &batch, 1);
            gains[k].push(learner.j() - before);
            kl[k] += divergence(&task.tree, &task.start, learner.policy()) / batches as f64;
        }
    }
    let more: Vec<f64> = gains[UPDATES - 1].iter().zip(&gains[0]).map(|(last, first)| last - first).collect();
    Some(Reuse {
        gain: gains.iter().map(|g| t_interval(g, 0.95)).collect::<Option<_>>()?,
        kl,
        more: t_interval(&more, 0.95)?,
    })
}
