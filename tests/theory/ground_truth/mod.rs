//! Claim `ground_truth`: what each method's expected update is, against the exact oracle.

mod baselines;
mod critics;
mod newer;
mod oar;
mod off_policy;
mod prime;
mod tempo;
mod trees;
mod w_reinforce;

use crate::laboratory::gap;
use grpo_lambda::methods;
use grpo_lambda_mdp::expected::{Situation, cosine, enumerated, implied};
use grpo_lambda_mdp::zoo::RandomRewards;
use grpo_lambda_mdp::{Oracle, Tabular, Tree, zoo, zoo::Family};

/// Two exact computations of the same sum.
const EXACT: f64 = 1e-12;

/// A random tree small enough to enumerate all groups of three, with its policy.
fn tiny(seed: u64, rewards: RandomRewards) -> (Tree, Tabular) {
    let family = zoo::Random { seed, symbols: 2, horizon: 3, eos: 0.7, rewards, scale: 1.0 };
    let tree = family.tree().expect("knobs in range");
    let policy = Tabular::random(&tree, seed + 100, 0.8);
    (tree, policy)
}

/// Four random trees of binary rewards, not all equal, whose responses all have three tokens; with a policy.
fn fixed_length() -> Vec<(Tree, Tabular)> {
    let build = |seed| {
        let family = zoo::Random { seed, symbols: 3, horizon: 3, eos: 0.0, ..zoo::Random::default() };
        let tree = family.tree().expect("knobs in range");
        let policy = Tabular::random(&tree, seed + 100, 0.8);
        let spread = Oracle::new(&tree, &policy).reward_distribution().len();
        (spread == 2 && tree.leaf_count() > 3).then_some((tree, policy))
    };
    (0..).filter_map(build).take(4).collect()
}

/// The expected update of a method, by enumeration of every group.
fn update(words: &str, tree: &Tree, policy: &Tabular, g: usize) -> Vec<f64> {
    let (name, settings) = words.split_once(' ').unwrap_or((words, ""));
    let method = methods::parse(name, settings).unwrap_or_else(|e| panic!("{words}: {e}")).method;
    let situation = Situation::on_policy(tree, policy, g);
    match implied(method.as_ref(), &situation) {
        Ok(expected) => expected.update,
        Err(_) => enumerated(method.as_ref(), &situation).expect("feasible").update,
    }
}

fn grad(tree: &Tree, policy: &Tabular) -> Vec<f64> {
    Oracle::new(tree, policy).grad_j()
}

/// The policy gradient, at each prefix times a factor of the probability of getting there.
fn re_weighted(oracle: &Oracle, factor: impl Fn(f64) -> f64) -> Vec<f64> {
    let entry = |(e, grad): (usize, &f64)| grad * factor(oracle.visit[oracle.tree.edge_node(e)]);
    oracle.grad_j().iter().enumerate().map(entry).collect()
}

fn times(factor: f64, v: &[f64]) -> Vec<f64> {
    v.iter().map(|x| factor * x).collect()
}

/// True if `update` is a positive multiple of `grad`.
fn parallel(update: &[f64], grad: &[f64]) -> bool {
    cosine(update, grad) > 1.0 - EXACT
}
