//! Moments of updates over simulated groups, the same groups for every method.

use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{self, Method};
use grpo_lambda_mdp::evidence::{Exact, Provider, features};
use grpo_lambda_mdp::{Oracle, Sampler, Tabular, Tree, sample_reward};

use crate::experiments::common::random::stream;
use crate::experiments::common::vectors::dot;

/// What is kept of each simulated group and method.
#[derive(Clone, Copy, Debug)]
struct Draw {
    /// `|g - ∇J|²`.
    error: f64,
    /// `|g|²`.
    square: f64,
    /// `<g, ∇J>`.
    along: f64,
}

/// The draws of one method.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    draws: Vec<Draw>,
    /// `|∇J|²`.
    gradient: f64,
}

impl Draws {
    fn mean(&self, of: impl Fn(&Draw) -> f64) -> f64 {
        self.draws.iter().map(of).sum::<f64>() / self.draws.len() as f64
    }

    /// `E|g - ∇J|²` over that of another method on the same groups, with its standard error. For unbiased updates: variances.
    pub(super) fn variance_ratio(&self, other: &Draws) -> (f64, f64) {
        let base = other.mean(|d| d.error);
        let ratio = self.mean(|d| d.error) / base;
        let n = self.draws.len() as f64;
        let pairs = self.draws.iter().zip(&other.draws);
        let spread: f64 = pairs.map(|(a, b)| (a.error - ratio * b.error).powi(2)).sum();
        (ratio, (spread / (n - 1.0) / n).sqrt() / base)
    }

    /// `min_c E|c g - ∇J|² / |∇J|²`: the error of one update at the best step size.
    pub(super) fn error(&self) -> f64 {
        1.0 - self.mean(|d| d.along).powi(2) / (self.gradient * self.mean(|d| d.square))
    }
}

/// Every method on the same `groups` groups of `size` responses.
pub(super) fn simulate(
    (tree, policy): (&Tree, &Tabular),
    methods: &[Box<dyn Method>],
    (groups, size): (usize, usize),
    seed: u64,
) -> Vec<Draws> {
    let oracle = Oracle::new(tree, policy);
    let exact = Exact::new(&oracle).with_states(features::tokens_by_position(tree));
    let (sampler, gradient) = (Sampler::new(tree, policy), oracle.grad_j());
    let square = dot(&gradient, &gradient);
    let mut all = vec![Draws { draws: Vec::with_capacity(groups), gradient: square }; methods.len()];
    let mut rng = stream(seed, size as u64);
    for _ in 0..groups {
        let (mut paths, mut logps, mut responses) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..size {
            let mut path = Vec::new();
            let leaf = sampler.sample_into(&mut rng, &mut path);
            let reward = sample_reward(tree, leaf, &mut rng);
            let own: Vec<f64> = path.iter().map(|&e| oracle.log_probs[e]).collect();
            responses.push(Response {
                tokens: path.iter().map(|&e| tree.token(e)).collect(),
                truncated: tree.truncated(leaf),
                evidence: exact.evidence(leaf, &path),
                ..Response::graded(own.clone(), reward)
            });
            logps.push(own);
            paths.push(path);
        }
        let batch = [Group { responses }];
        for (draws, method) in all.iter_mut().zip(methods) {
            let loss = methods::evaluate(method.as_ref(), &batch, &logps);
            let mut per_edge = vec![0.0; tree.edge_count()];
            for (path, dlogps) in paths.iter().zip(&loss.dlogps) {
                path.iter().zip(dlogps).for_each(|(&e, d)| per_edge[e] -= d);
            }
            let g = policy.backward(tree, &per_edge);
            let along = dot(&g, &gradient);
            let own = dot(&g, &g);
            draws.draws.push(Draw { error: own - 2.0 * along + square, square: own, along });
        }
    }
    all
}
