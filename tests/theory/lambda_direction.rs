//! λ trades bias for variance: with which critic, and in which direction.

use crate::laboratory::{laid_out, of_zoo, update};
use grpo_lambda::advantage::gae;
use grpo_lambda_mdp::{Oracle, Tabular, Tree, zoo};

const LAMBDAS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
const EXACT: f64 = 1e-12;

fn mdps() -> Vec<(Tree, Tabular)> {
    let random = |seed| laid_out(&zoo::Random { seed, horizon: 4, ..zoo::Random::default() });
    let named = |name| {
        let (tree, _) = of_zoo(name);
        let policy = Tabular::random(&tree, 1, 0.5);
        (tree, policy)
    };
    (0..40).map(random).chain(["lucky_guess", "noisy", "chain", "pivot"].map(named)).collect()
}

/// `E[A_t|s,a]` per edge, by enumeration.
fn mean_advantages(oracle: &Oracle, critic: &[f64], lambda: f64) -> Vec<f64> {
    let tree = oracle.tree;
    let mut mean = vec![0.0; tree.edge_count()];
    for leaf in tree.leaves() {
        let path = tree.path(leaf);
        let values: Vec<f64> = path.iter().map(|&e| critic[tree.edge_node(e)]).collect();
        for (reward, p) in tree.outcomes(leaf) {
            let mut rewards = vec![0.0; path.len()];
            rewards[path.len() - 1] = reward;
            for (&e, a) in path.iter().zip(gae(&rewards, &values, 1.0, lambda)) {
                mean[e] += p * oracle.leaf_prob(leaf) / oracle.edge_visit(e) * a;
            }
        }
    }
    mean
}

fn perturbed(oracle: &Oracle, seed: u64) -> Vec<f64> {
    let noise = Tabular::random(oracle.tree, seed, 0.3).logits;
    oracle.tree.nodes().map(|n| oracle.v[n] + noise[oracle.tree.edges_of(n).start]).collect()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
}

#[test]
fn with_the_exact_critic_every_lambda_is_unbiased() {
    for (tree, policy) in mdps() {
        let oracle = Oracle::new(&tree, &policy);
        for lambda in LAMBDAS {
            let mean = mean_advantages(&oracle, &oracle.v, lambda);
            assert!(distance(&mean, &oracle.advantages()) < EXACT);
            assert!(distance(&oracle.update_of_credit(&mean), &oracle.grad_j()) < EXACT);
        }
    }
}

#[test]
fn with_a_wrong_critic_the_bias_vanishes_at_lambda_1_and_not_at_lambda_0() {
    let (mut biased, mut total) = (0, 0);
    for (i, (tree, policy)) in mdps().iter().enumerate() {
        let oracle = Oracle::new(tree, policy);
        let bias = |critic: &[f64], lambda| {
            distance(&oracle.update_of_credit(&mean_advantages(&oracle, critic, lambda)), &oracle.grad_j())
        };
        for critic in [perturbed(&oracle, i as u64), vec![0.0; tree.node_count()]] {
            assert!(bias(&critic, 1.0) < EXACT);
            biased += usize::from(bias(&critic, 0.0) > 1e-3);
            total += 1;
        }
    }
    assert!(biased * 10 > total * 8, "{biased} of {total}");
}

#[test]
fn a_constant_critic_at_lambda_1_is_the_centred_advantage_of_grpo_and_at_lambda_0_the_last_token_only() {
    let (v0, r) = (0.3, 1.0);
    assert_eq!(gae(&[0.0, 0.0, r], &[v0; 3], 1.0, 1.0), [0.7; 3]);
    assert_eq!(gae(&[0.0, 0.0, r], &[v0; 3], 1.0, 0.0), [0.0, 0.0, 0.7]);
    for (tree, policy) in mdps() {
        let [terminal, centred] = ["grpo_lambda delta=terminal lambda=1 clamp=none", "grpo"]
            .map(|words| update(&format!("{words} scale=none reduction=response_sum"), &tree, &policy, 3));
        assert!(distance(&terminal, &centred) < EXACT);
    }
}
