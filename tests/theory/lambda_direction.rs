//! λ trades bias for variance: with which critic, and in which direction.

use crate::laboratory::method;
use grpo_lambda::advantage::gae;
use grpo_lambda::methods;
use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::zoo::{self, Family};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};

const LAMBDAS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
const EXACT: f64 = 1e-12;

fn mdps() -> Vec<(Tree, Tabular)> {
    let random = |seed| zoo::Random { seed, horizon: 4, ..zoo::Random::default() };
    let mut all: Vec<_> = (0..40)
        .map(|seed| {
            let tree = random(seed).tree().expect("valid");
            let policy = random(seed).initial(&tree);
            (tree, policy)
        })
        .collect();
    for name in ["lucky_guess", "noisy", "chain", "pivot"] {
        let tree = (zoo::find(name).expect("listed").build)();
        let policy = Tabular::random(&tree, 1, 0.5);
        all.push((tree, policy));
    }
    all
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
    let method = |name, settings| method(name, settings);
    let terminal =
        method("grpo_lambda", "delta=terminal lambda=1 scale=none clamp=none reduction=response_sum");
    let centred = method("grpo", "scale=none reduction=response_sum");
    for (tree, policy) in mdps() {
        let situation = Situation::on_policy(&tree, &policy, 3);
        let update = |m: &dyn methods::Method| implied(m, &situation).expect("feasible").update;
        assert!(distance(&update(terminal.as_ref()), &update(centred.as_ref())) < EXACT);
    }
}
