//! One run of training, and its scores.

use grpo_lambda::learner::iterate;
use grpo_lambda::mdp::TabularLearner;
use grpo_lambda::methods::Method;

use super::task::Task;

/// Responses per group, one group per update.
pub(super) const GROUP: usize = 8;
/// The share of `J*` that counts as learned.
const LEARNED: f64 = 0.9;

/// For what a run is used. Rates are never chosen on the runs that are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// To choose a learning rate.
    Selection,
    /// To be reported.
    Report,
}

/// What a run left behind; every value is a share of `J*`.
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

/// How long a run is and how densely its curve is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Updates per run.
    pub(super) updates: usize,
    /// Updates between two points of the kept curve; divides `updates`.
    pub(super) every: usize,
}

/// The seed of a run's stream.
///
/// ```text
/// s = mix(mix(mix(seed, phase), fnv1a(MDP)), run),   mix(s, x) = splitmix64(s XOR x)
/// ```
/// Method and learning rate are left out on purpose: run `i` of every method draws from the same ChaCha8 stream (common random
/// numbers), so that all methods see the same first group and differences between methods are paired.
pub(super) fn stream(seed: u64, phase: Phase, mdp: &str, run: usize) -> u64 {
    let name = mdp.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    [phase as u64, name, run as u64].into_iter().fold(seed, |state, x| splitmix64(state ^ x))
}

fn splitmix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Trains from the task's initial policy: one group of [`GROUP`] responses and one gradient step per update.
pub(super) fn train(task: &Task, method: &dyn Method, rate: f64, plan: Plan, stream: u64) -> Run {
    let mut learner = TabularLearner::new(&task.tree, task.start.clone(), rate, stream);
    let mut j = learner.j() / task.best;
    let mut run = Run { curve: vec![j], area: 0.0, last: j, learned: None };
    for update in 1..=plan.updates {
        match iterate(&mut learner, method, &[()], GROUP, 1) {
            Ok(_) => {}
            Err(never) => match never {},
        }
        let next = learner.j() / task.best;
        run.area += (j + next) / (2.0 * plan.updates as f64);
        j = next;
        if update % plan.every == 0 {
            run.curve.push(j);
        }
        if run.learned.is_none() && j >= LEARNED {
            run.learned = Some((update * GROUP) as f64);
        }
    }
    run.last = j;
    run
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
