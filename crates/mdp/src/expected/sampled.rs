//! [`sampled`] and [`sampled_in_sets`]: the expected update by simulation, with standard errors.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{Evaluated, Expected, Situation};
use crate::{EdgeId, Sampler};
use grpo_lambda::group::Group;
use grpo_lambda::methods::{Method, evaluate};
use grpo_lambda::systematic::Sets;

/// An expected update estimated from simulated groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// Means and variances per edge (`n-1` in the denominator).
    pub estimate: Expected,
    /// Standard error of `estimate.update` per edge.
    pub standard_error: Vec<f64>,
    /// Standard error of the trace of the covariance.
    pub total_variance_se: f64,
    /// The noise `tr Var / |E g|²` with its standard error, to first order. The noise of the mean is taken off its squared length; `None` where it
    /// is half of that or more.
    pub noise: Option<(f64, f64)>,
    /// Number of groups simulated.
    pub groups: usize,
}

/// The expected update and its variance estimated from `groups` simulated groups, for any method on any MDP.
///
/// # Panics
/// If `groups < 2`.
pub fn sampled(method: &dyn Method, situation: &Situation, groups: usize, seed: u64) -> Sampled {
    sampled_in_sets(method, situation, Sets::SINGLE, groups, seed)
}

/// [`sampled`] from groups that are drawn in systematic sets.
///
/// # Panics
/// If `groups < 2`.
pub fn sampled_in_sets(
    method: &dyn Method,
    situation: &Situation,
    sets: Sets,
    groups: usize,
    seed: u64,
) -> Sampled {
    let evaluated = Evaluated::new(situation);
    let sampler = Sampler::new(evaluated.tree, situation.behaviour);
    let draw = |rng: &mut ChaCha8Rng| {
        let (mut responses, mut logps, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        for (leaf, path, reward) in sampler.graded_group(sets, evaluated.group_size, rng) {
            responses.push(evaluated.response(leaf, &path, reward));
            logps.push(path.iter().map(|&e| evaluated.current.log_probs[e]).collect::<Vec<_>>());
            paths.push(path);
        }
        let batch = evaluate(method, &[Group { responses }], &logps);
        paths.into_iter().zip(batch.dlogps).collect()
    };
    moments(&evaluated, groups, seed, draw)
}

/// Mean and variance of an update over `groups` draws: of every response its edges and `dL/d log π` of each.
///
/// # Panics
/// If `groups < 2`.
pub(super) fn moments(
    evaluated: &Evaluated,
    groups: usize,
    seed: u64,
    draw: impl Fn(&mut ChaCha8Rng) -> Vec<(Vec<EdgeId>, Vec<f64>)>,
) -> Sampled {
    assert!(groups >= 2, "a variance needs at least two groups");
    let edges = evaluated.tree.edge_count();
    let draw = |rng: &mut ChaCha8Rng| {
        let mut per_edge = vec![0.0; edges];
        for (path, dlogps) in draw(rng) {
            for (edge, d) in path.into_iter().zip(dlogps) {
                per_edge[edge] -= d;
            }
        }
        per_edge
    };
    let n = groups as f64;
    let (mut weights, mut mean, mut squares) = (vec![0.0; edges], vec![0.0; edges], vec![0.0; edges]);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for i in 0..groups {
        let per_edge = draw(&mut rng);
        for (edge, step) in evaluated.pull_back(&per_edge).into_iter().enumerate() {
            weights[edge] += per_edge[edge] / n;
            // Welford's update keeps the variance accurate where the mean is large.
            let before = step - mean[edge];
            mean[edge] += before / (i as f64 + 1.0);
            squares[edge] += before * (step - mean[edge]);
        }
    }
    let variance: Vec<f64> = squares.iter().map(|s| s / (n - 1.0)).collect();
    let total: f64 = variance.iter().sum();
    let length: f64 = mean.iter().map(|m| m * m).sum::<f64>() - total / n;
    // The same stream again, for the spread of the squared distance to the mean, and of what a draw changes in the noise.
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut spread, mut noise_spread) = (0.0, 0.0);
    for _ in 0..groups {
        let step = evaluated.pull_back(&draw(&mut rng));
        let distance: f64 = step.iter().zip(&mean).map(|(s, m)| (s - m).powi(2)).sum();
        let along: f64 = step.iter().zip(&mean).map(|(s, m)| (s - m) * m).sum();
        spread += (distance - total).powi(2);
        noise_spread += (distance - total - 2.0 * total / length * along).powi(2);
    }
    let error = |spread: f64| (spread / (n - 1.0) / n).sqrt();
    Sampled {
        standard_error: variance.iter().map(|v| (v / n).sqrt()).collect(),
        total_variance_se: error(spread),
        noise: (length > total / n).then(|| (total / length, error(noise_spread) / length)),
        estimate: Expected { update: mean, credit: evaluated.per_visit(&weights), variance },
        groups,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo;
    use grpo_lambda::methods;

    fn simulated(task: &str, method: &str, groups: usize, seed: u64) -> Sampled {
        let named = zoo::find(task).expect("known");
        let tree = (named.build)();
        let policy = (named.initial)(&tree);
        let method = methods::parse(method, "").expect("valid").method;
        sampled(method.as_ref(), &Situation::on_policy(&tree, &policy, 4), groups, seed)
    }

    /// The spread of the noise over repeated simulations is the standard error that each of them states.
    #[test]
    fn the_error_of_the_noise_is_its_spread_over_simulations() {
        for task in ["pivot", "chain"] {
            let reported: Vec<(f64, f64)> =
                (0..200).map(|seed| simulated(task, "rloo", 200, seed).noise.expect("reported")).collect();
            let mean = |value: &dyn Fn(&(f64, f64)) -> f64| reported.iter().map(value).sum::<f64>() / 200.0;
            let level = mean(&|t| t.0);
            let spread = mean(&|t| (t.0 - level).powi(2)).sqrt();
            let stated = mean(&|t| t.1);
            assert!((stated / spread - 1.0).abs() < 0.2, "{task}: {stated} stated, {spread} found");
        }
    }

    #[test]
    fn noise_that_hides_the_mean_is_inconclusive() {
        assert_eq!(simulated("parity", "spo_tree", 100, 0).noise, None);
    }
}
