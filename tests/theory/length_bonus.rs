//! The hidden length bonus: what the trace does to the length of responses when rewards say nothing.

use crate::laboratory::{laid_out, update};
use grpo_lambda_mdp::expected::cosine;
use grpo_lambda_mdp::zoo::{EosHazardDependent, Family, Random};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};

const EXACT: f64 = 1e-12;

/// `∇E[T]` by central differences of the expected length.
fn length_gradient(tree: &Tree, policy: &Tabular) -> Vec<f64> {
    let mean = |p: &Tabular| Oracle::new(tree, p).expect(|y| tree.leaf_len(y) as f64);
    let h = 1e-3;
    let at = |e: usize, h: f64| {
        let mut moved = policy.clone();
        moved.logits[e] += h;
        mean(&moved)
    };
    let slope = |e| (8.0 * (at(e, h) - at(e, -h)) - (at(e, 2.0 * h) - at(e, -2.0 * h))) / (12.0 * h);
    tree.edges().map(slope).collect()
}

fn noise_tree(seed: u64, rate: f64) -> (Tree, Tabular) {
    let family = Random { seed, symbols: 2, horizon: 4, eos: 1.0, ..Random::default() };
    let tree = family.tree().expect("valid").with_rewards(|_| rate);
    let policy = family.initial(&tree);
    (tree, policy)
}

#[test]
fn noise_rewards_with_the_clamp_and_lambda_1_follow_the_gradient_of_the_length() {
    for seed in 0..20 {
        let (tree, policy) = noise_tree(seed, 0.5);
        let step = update("grpo_lambda lambda=1 reduction=response_sum", &tree, &policy, 8);
        for (u, g) in step.iter().zip(length_gradient(&tree, &policy)) {
            assert!((u - 0.384_255_625_592_464_4 * g).abs() < 1e-9, "{seed}: {u} {g}");
        }
    }
}

#[test]
fn without_the_clamp_noise_moves_nothing() {
    for settings in ["lambda=1 clamp=none", "lambda=0.9 clamp=none style=both reduction=response_mean"] {
        let (tree, policy) = noise_tree(3, 0.3);
        let step = update(&format!("grpo_lambda {settings}"), &tree, &policy, 8);
        assert!(step.iter().all(|u| u.abs() < EXACT), "{settings}");
    }
}

#[test]
fn at_lambda_0_the_clamp_alone_moves_nothing_under_a_constant_reduction() {
    let (tree, policy) = noise_tree(5, 0.5);
    let step = update("grpo_lambda lambda=0 reduction=response_sum", &tree, &policy, 8);
    assert!(step.iter().all(|u| u.abs() < EXACT));
    // The token mean divides by the response's own length, too, and does move it.
    let step = update("grpo_lambda lambda=0 reduction=token_mean", &tree, &policy, 8);
    assert!(step.iter().any(|u| u.abs() > 1e-4));
}

#[test]
fn the_papers_settings_turn_against_the_reward_at_horizon_8_and_grpo_does_not() {
    let at = |horizon, words| {
        let (tree, policy) = laid_out(&EosHazardDependent { horizon, ..EosHazardDependent::default() });
        cosine(&update(words, &tree, &policy, 8), &Oracle::new(&tree, &policy).grad_j())
    };
    assert!((at(5, "grpo_lambda lambda=0.99") - 0.7357).abs() < 1e-3);
    assert!(at(8, "grpo_lambda lambda=0.99") < -0.1);
    assert!(at(8, "grpo_lambda lambda=0.99 clamp=none") > 0.9);
    assert!(at(8, "grpo reduction=token_mean clamp=-0.1") > 0.99);
    assert!(at(8, "grpo reduction=token_mean") > 0.99);
}

/// R at λ = 1: the gradient acts on this response's law with the others held. With the ordinary gradient E[A] = 0 for every policy, and the second
/// term is lost.
#[test]
fn with_rewards_the_gradient_holds_the_other_responses() {
    let mut lost = 0;
    for seed in 0..10 {
        let (tree, policy) =
            laid_out(&Random { seed, symbols: 2, horizon: 4, eos: 1.0, ..Random::default() });
        let oracle = Oracle::new(&tree, &policy);
        // Groups of two without a standard deviation: A(y) = E[A_i | y_i = y] = (R(y) - J) / 2.
        let step =
            update("grpo_lambda lambda=1 clamp=none scale=none reduction=response_sum", &tree, &policy, 2);
        let of_weight = |weight: &dyn Fn(f64) -> f64| {
            let credit = oracle.implied_credit(|y, r, w| {
                w.fill((r - oracle.j) / 2.0 * weight(tree.leaf_len(y) as f64));
            });
            oracle.update_of_credit(&credit)
        };
        let (by_length, plain) = (of_weight(&|t| t), of_weight(&|_| 1.0));
        let norm = step.iter().map(|u| u * u).sum::<f64>().sqrt();
        let off = |held: f64| {
            let want = |e: usize| by_length[e] - held * tree.depth(tree.edge_node(e)) as f64 * plain[e];
            step.iter().enumerate().map(|(e, u)| (u - want(e)).powi(2)).sum::<f64>().sqrt() / norm
        };
        assert!(off(1.0) < EXACT, "{seed}: {}", off(1.0));
        lost += usize::from(off(0.0) > 0.1);
    }
    assert!(lost >= 5, "the second term is large on {lost} of 10 trees");
}
