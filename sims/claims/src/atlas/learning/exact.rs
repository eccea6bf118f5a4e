//! Exact quantities of an expected update, and the policy half-way through learning.

use crate::training::{GROUP, Task};
use grpo_lambda::methods::Method;
use grpo_lambda_mdp::expected::{Comparison, Situation, compare, implied, sampled};
use grpo_lambda_mdp::{Oracle, Tabular};

/// Groups where the exact sum would take too long.
const SAMPLED_GROUPS: usize = 4000;

/// A method's expected update at a policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Update {
    /// Against the policy gradient.
    pub(super) comparison: Comparison,
    /// The correlation of its credit with expected length; see [`with_length`].
    pub(super) with_length: f64,
    /// `|E[g]|` at learning rate 1.
    pub(super) norm: f64,
    /// True if the expectation is exact, not from [`SAMPLED_GROUPS`].
    pub(super) exact: bool,
}

impl Update {
    /// The update of one group of [`GROUP`], on policy.
    pub(super) fn new(task: &Task, method: &dyn Method, policy: &Tabular, seed: u64) -> Update {
        let situation = Situation::on_policy(&task.tree, policy, GROUP);
        let oracle = Oracle::new(&task.tree, policy);
        let (expected, exact) = match implied(method, &situation) {
            Ok(expected) => (expected, true),
            Err(_) => (sampled(method, &situation, SAMPLED_GROUPS, seed).estimate, false),
        };
        Update {
            comparison: compare(&expected, &oracle),
            with_length: with_length(&oracle, &expected.credit),
            norm: expected.update.iter().map(|x| x * x).sum::<f64>().sqrt(),
            exact,
        }
    }
}

/// The policy at which exact gradient ascent has gone half of the way from `J` to `J*`: one in the middle of learning that no method
/// has chosen.
pub(super) fn half_learned(task: &Task) -> Tabular {
    let mut policy = task.start.clone();
    let goal = task.start_j + 0.5 * (task.best - task.start_j);
    // Steps of one length: only the path matters. A path this long ends in a corner for certain.
    for _ in 0..2000 {
        let oracle = Oracle::new(&task.tree, &policy);
        let gradient = oracle.grad_j();
        let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        if oracle.j >= goal || norm == 0.0 {
            break;
        }
        policy.step(&gradient, 0.05 / norm);
    }
    policy
}

/// `Σ b f(s,a)` over edges, `b` the probability of the edge.
fn weighted(oracle: &Oracle, f: impl Fn(usize) -> f64) -> f64 {
    oracle.tree.edges().map(|e| oracle.edge_visit(e) * f(e)).sum()
}

/// A number per edge less its mean at the prefix.
fn centred(oracle: &Oracle, values: &[f64]) -> Vec<f64> {
    let mut out = values.to_vec();
    for node in oracle.tree.nodes() {
        let edges = oracle.tree.edges_of(node);
        let mean: f64 = edges.clone().map(|e| oracle.probs[e] * values[e]).sum();
        edges.for_each(|e| out[e] -= mean);
    }
    out
}

/// Expected extra length of a response by edge, over its siblings.
fn lengths(oracle: &Oracle) -> Vec<f64> {
    centred(oracle, &oracle.expect_given_edge(|leaf| oracle.tree.leaf_len(leaf) as f64))
}

/// The correlation of credit, or of the advantage, with expected length over visited edges, both less their mean at the prefix, in
/// `[-1, 1]`; 0 where all lengths agree.
pub(super) fn with_length(oracle: &Oracle, credit: &[f64]) -> f64 {
    let (c, l) = (centred(oracle, credit), lengths(oracle));
    let product = (weighted(oracle, |e| c[e] * c[e]) * weighted(oracle, |e| l[e] * l[e])).sqrt();
    if product > 1e-12 { weighted(oracle, |e| c[e] * l[e]) / product } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::methods;
    use grpo_lambda_mdp::zoo::{self, Family};

    #[test]
    fn the_correlation_of_credit_and_length_on_fork_by_hand() {
        // At the root: short (T = 2, Q .9, π .1), long (T = 50, Q .8, π .2), astray (T = 10, Q 0, π .7); elsewhere no choice.
        let tree = zoo::Fork::default().tree().unwrap();
        let policy = zoo::Fork::default().initial(&tree);
        let oracle = Oracle::new(&tree, &policy);
        let (pi, q, t) = ([0.1, 0.2, 0.7], [0.9, 0.8, 0.0], [2.0, 50.0, 10.0]);
        let mean = |x: [f64; 3]| (0..3).map(|i| pi[i] * x[i]).sum::<f64>();
        let sum = |f: &dyn Fn(usize) -> f64| (0..3).map(|i| pi[i] * f(i)).sum::<f64>();
        let deviation = |x: [f64; 3]| sum(&|i| (x[i] - mean(x)).powi(2)).sqrt();
        let correlation =
            |x: [f64; 3]| sum(&|i| (x[i] - mean(x)) * (t[i] - mean(t))) / (deviation(x) * deviation(t));
        assert!((with_length(&oracle, &oracle.advantages()) - correlation(q)).abs() < 1e-12);
        // Credit with 0.01 per token on top.
        let padded = [0, 1, 2].map(|i| q[i] + 0.01 * t[i]);
        let credit: Vec<f64> = tree.edges().map(|e| if e < 3 { padded[e] } else { 0.0 }).collect();
        assert!((with_length(&oracle, &credit) - correlation(padded)).abs() < 1e-12);
        assert!(correlation(padded) > correlation(q) + 0.05);
        // Dr. GRPO is unbiased: its credit goes with length as the advantage does.
        let dr = methods::parse("dr_grpo", "max_length=50").unwrap();
        let task = Task::with_start("fork", "", tree.clone(), policy.clone());
        let update = Update::new(&task, dr.method.as_ref(), &policy, 1);
        assert!(update.exact && (update.with_length - correlation(q)).abs() < 1e-9);
        assert!((update.comparison.cosine - 1.0).abs() < 1e-12 && update.norm > 0.0);
    }

    #[test]
    fn the_half_learned_policy_is_half_way() {
        for task in crate::training::tasks(false).unwrap() {
            let j = Oracle::new(&task.tree, &half_learned(&task)).j;
            let share = (j - task.start_j) / (task.best - task.start_j);
            assert!((0.5..0.6).contains(&share), "{}: {share}", task.name);
        }
    }
}
