//! Token weights: which of them rescale the policy gradient, and the most a group can be worth.

use crate::tolerance::dot;
use grpo_lambda::methods;
use grpo_lambda::trace::{Recent, Trace};
use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::zoo::{Family, Fork, Random};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};

fn random(seed: u64) -> (Tree, Tabular) {
    let family = Random { seed, symbols: 2, horizon: 4, ..Random::default() };
    let tree = family.tree().expect("valid");
    let policy = family.initial(&tree);
    (tree, policy)
}

#[test]
fn a_trace_of_a_fixed_horizon_rescales_the_gradient_depth_by_depth_whatever_the_lengths() {
    let mut ragged = 0;
    for seed in 0..12 {
        let (tree, policy) = random(seed);
        let oracle = Oracle::new(&tree, &policy);
        let sums = Recent { q: 0.9 }.column_sums(tree.max_len());
        let update = |of: &dyn Fn(usize) -> Vec<f64>| {
            let credit = oracle.implied_credit(|leaf, reward, w| {
                let weights = of(tree.leaf_len(leaf));
                w.iter_mut().zip(weights).for_each(|(w, c)| *w = (reward - oracle.j) * c);
            });
            oracle.update_of_credit(&credit)
        };
        let rescaled: Vec<f64> = oracle
            .grad_j()
            .iter()
            .enumerate()
            .map(|(e, g)| sums[tree.depth(tree.edge_node(e))] * g)
            .collect();
        let off =
            |update: Vec<f64>| update.iter().zip(&rescaled).map(|(u, r)| (u - r).abs()).fold(0.0, f64::max);
        assert!(off(update(&|len| sums[..len].to_vec())) < 1e-12, "{seed}");
        ragged += usize::from(off(update(&|len| Recent { q: 0.9 }.column_sums(len))) > 1e-3);
    }
    assert!(ragged > 5, "GRPO-lambda's own weights do not: {ragged}");
}

#[test]
fn a_fixed_horizon_keeps_the_preference_that_the_trace_turns_round() {
    // Erratum E13: the short answer is better (0.9 against 0.8) and gets less credit.
    let family = Fork::default();
    let tree = family.tree().expect("valid");
    let oracle = Oracle::new(&tree, &family.initial(&tree));
    let credit = |of: &dyn Fn(usize) -> Vec<f64>| {
        oracle.implied_credit(|leaf, reward, w| {
            let weights = of(tree.leaf_len(leaf));
            w.iter_mut().zip(weights).for_each(|(w, c)| *w = (reward - oracle.j) * c);
        })
    };
    let own = credit(&|len| Recent { q: 0.99 }.column_sums(len));
    let horizon = Recent { q: 0.99 }.column_sums(tree.max_len());
    let fixed = credit(&|len| horizon[..len].to_vec());
    assert!(own[0] < own[1] && fixed[0] > fixed[1]);
    let ratio = (fixed[0] - fixed[1]) / (oracle.q[0] - oracle.q[1]);
    assert!((ratio - horizon[0]).abs() < 1e-9, "Q times one number: {ratio}");
}

#[test]
fn no_group_yields_more_than_the_whole_gradient_and_greater_groups_yield_more() {
    for seed in [0, 3, 5] {
        let (tree, policy) = random(seed);
        let gradient = Oracle::new(&tree, &policy).grad_j();
        // 1 - min over step sizes of the relative mean squared error.
        let efficiency = |name: &str, settings: &str, size: usize| {
            let method = methods::parse(name, settings).expect("valid").method;
            let e = implied(method.as_ref(), &Situation::on_policy(&tree, &policy, size)).expect("feasible");
            let second = dot(&e.update, &e.update) + e.total_variance();
            dot(&e.update, &gradient).powi(2) / (second * dot(&gradient, &gradient))
        };
        for (name, settings) in [("rloo", ""), ("grpo", ""), ("grpo_lambda", ""), ("gspo", "")] {
            let [few, many] = [2, 16].map(|size| efficiency(name, settings, size));
            assert!(0.0 < few && few < many && many < 1.0, "{name} {seed}: {few} {many}");
        }
    }
}
