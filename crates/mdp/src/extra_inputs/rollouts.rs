//! Values of prefixes from completions of them.

use std::sync::{Mutex, PoisonError};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Exact, Provider};
use crate::{EdgeId, LeafId, Oracle, Sampler, Tabular, Target, Tree, sample_reward};
use grpo_lambda::group::{ExtraInputs, InputKind, StepValue};

/// The mean reward to come per node, not discounted: what infinitely many completions would average.
pub fn expected(oracle: &Oracle) -> Vec<f64> {
    let tree = oracle.tree;
    let mut mean = vec![0.0; tree.node_count()];
    for node in tree.nodes().rev() {
        mean[node] = tree.edges_of(node).map(|e| oracle.probs[e] * after(tree, e, &mean)).sum();
    }
    mean
}

/// The mean reward to come once `edge` is taken, where `mean` is that of every later node.
fn after(tree: &Tree, edge: EdgeId, mean: &[f64]) -> f64 {
    match tree.target(edge) {
        Target::Leaf(leaf) => tree.reward(leaf),
        Target::Node(child) => mean[child],
    }
}

/// The mean reward to come after each edge minus that before it, of [`expected`] values: the rewards of an exact process reward model.
pub fn progress(oracle: &Oracle, mean: &[f64]) -> Vec<f64> {
    let tree = oracle.tree;
    tree.edges().map(|edge| after(tree, edge, mean) - mean[tree.edge_node(edge)]).collect()
}

/// Every token a step of its own.
pub fn every_token(values: &[f64]) -> Vec<StepValue> {
    values.iter().enumerate().map(|(start, &value)| StepValue { start, value }).collect()
}

/// The mean reward of `k` fresh completions of the prefix before each token in `starts` of the response `path`.
///
/// # Panics
/// If `k` is 0 or a start lies outside the response.
pub fn monte_carlo(
    sampler: &Sampler,
    path: &[EdgeId],
    starts: &[usize],
    k: usize,
    rng: &mut impl Rng,
) -> Vec<StepValue> {
    assert!(k > 0, "a mean needs at least one completion");
    let tree = sampler.tree();
    let step = |&start: &usize| {
        let node = tree.edge_node(path[start]);
        let total: f64 = (0..k).map(|_| sample_reward(tree, sampler.complete(node, rng), rng)).sum();
        StepValue { start, value: total / k as f64 }
    };
    starts.iter().map(step).collect()
}

/// The extra inputs of a table with step values from fresh completions, every token a step.
///
/// Each response asked about gets completions of its own, from one seeded stream: what a response gets depends on how many were asked about before it, so
/// that only ways of computing that treat extra inputs as random ([`sampled`](crate::expected::sampled),
/// [`conditional`](crate::expected::conditional)) may use it.
#[derive(Debug)]
pub struct Completions<'t> {
    exact: Exact,
    sampler: Sampler<'t>,
    k: usize,
    rng: Mutex<ChaCha8Rng>,
}

impl<'t> Completions<'t> {
    /// `k` completions of `policy` per step.
    ///
    /// # Panics
    /// If `k` is 0.
    pub fn new(oracle: &Oracle<'t>, policy: &Tabular, k: usize, seed: u64) -> Completions<'t> {
        assert!(k > 0, "a mean needs at least one completion");
        let (exact, sampler) = (Exact::new(oracle), Sampler::new(oracle.tree, policy));
        Completions { exact, sampler, k, rng: Mutex::new(ChaCha8Rng::seed_from_u64(seed)) }
    }
}

impl Provider for Completions<'_> {
    fn extra_inputs(&self, leaf: LeafId, path: &[EdgeId]) -> ExtraInputs {
        let starts: Vec<usize> = (0..path.len()).collect();
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let steps = monte_carlo(&self.sampler, path, &starts, self.k, &mut *rng);
        ExtraInputs { steps: Some(steps), ..self.exact.extra_inputs(leaf, path) }
    }

    fn kinds(&self) -> Vec<InputKind> {
        self.exact.kinds()
    }
}
