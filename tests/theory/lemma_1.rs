//! Lemma 1 of GRPO-lambda: false prefix by prefix, true on average.

use crate::laboratory::laid_out;
use grpo_lambda_mdp::zoo::{self, Family, RandomRewards};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};

const EXACT: f64 = 1e-12;

/// 200 random MDPs with binary rewards, EOS legal everywhere or not, some graded with noise.
fn mdps() -> impl Iterator<Item = (Tree, Tabular)> {
    (0..200).map(|seed| {
        let rewards = if seed % 2 == 0 { RandomRewards::Bits } else { RandomRewards::Probabilities };
        laid_out(&zoo::Random {
            seed,
            eos: if seed % 3 == 0 { 1.0 } else { 0.6 },
            rewards,
            ..Default::default()
        })
    })
}

/// `E[f(y); T <= t]`, by enumeration of responses.
fn ended(oracle: &Oracle, t: usize, f: impl Fn(usize) -> f64) -> f64 {
    oracle.expect(|leaf| if oracle.tree.leaf_len(leaf) <= t { f(leaf) } else { 0.0 })
}

fn excess(oracle: &Oracle, node: usize) -> f64 {
    oracle.j - oracle.v[node] - (1.0 - oracle.path_products()[node])
}

#[test]
fn as_printed_it_fails_on_two_tokens() {
    let family = zoo::LemmaCounterexample;
    let tree = family.tree().expect("valid");
    let oracle = Oracle::new(&tree, &family.initial(&tree));
    assert_eq!(tree.max_len(), 2);
    // After B: V(s_0) - V(s_1) = 0.5, the bound is 0.
    assert_eq!(tree.nodes().skip(1).map(|n| excess(&oracle, n)).fold(f64::MIN, f64::max), 0.5);
}

#[test]
fn l1a_the_value_alive_differs_from_v0_by_at_most_the_probability_of_having_ended() {
    for (tree, policy) in mdps() {
        for gamma in [1.0, 0.9, 0.5] {
            let tree = tree.clone().with_gamma(gamma);
            let oracle = Oracle::new(&tree, &policy);
            for t in 0..=tree.max_len() {
                let over = ended(&oracle, t, |_| 1.0);
                let received =
                    ended(&oracle, t, |l| gamma.powi(tree.leaf_len(l) as i32 - 1) * tree.reward(l));
                let alive: f64 = tree.nodes_at(t).map(|n| oracle.visit[n] * oracle.v[n]).sum();
                let gap = oracle.j - gamma.powi(t as i32) * alive;
                assert!((gap - received).abs() < EXACT, "identity");
                assert!(gap <= over + EXACT, "bound");
                if gamma == 1.0 && over < 1.0 - EXACT {
                    let mean = alive / (1.0 - over);
                    assert!((oracle.j - mean).abs() <= over + EXACT, "bound of the mean alive");
                    if over > 0.0 {
                        let formula = over * (received / over - mean).abs();
                        assert!(((oracle.j - mean).abs() - formula).abs() < EXACT);
                    }
                }
            }
        }
    }
}

#[test]
fn l1b_survival_is_the_mean_path_product_of_the_policy_without_eos() {
    let mut apart = 0.0f64;
    for (tree, policy) in mdps() {
        let oracle = Oracle::new(&tree, &policy);
        let (products, without) = (oracle.path_products(), oracle.visits_without_eos());
        for t in 0..=tree.max_len() {
            let survival = 1.0 - ended(&oracle, t, |_| 1.0);
            let mean: f64 = tree.nodes_at(t).map(|n| without[n] * products[n]).sum();
            assert!((mean - survival).abs() < EXACT);
            apart = tree.nodes_at(t).map(|n| (products[n] - survival).abs()).fold(apart, f64::max);
        }
    }
    assert!(apart > 0.4, "the product along one path is another number: {apart}");
}

#[test]
fn l1c_stopped_values_stay_v0_on_average_and_spread_out_to_the_variance_of_the_reward() {
    for (tree, policy) in mdps() {
        let oracle = Oracle::new(&tree, &policy);
        let v0 = oracle.j;
        let mut before = 0.0;
        for t in 0..=tree.max_len() {
            let alive = |f: &dyn Fn(f64) -> f64| -> f64 {
                tree.nodes_at(t).map(|n| oracle.visit[n] * f(oracle.v[n])).sum()
            };
            let stopped = |f: &dyn Fn(f64) -> f64| {
                ended(&oracle, t, |l| tree.outcomes(l).map(|(r, p)| p * f(r)).sum()) + alive(f)
            };
            assert!((stopped(&|v| v) - v0).abs() < EXACT);
            let spread = stopped(&|v| (v - v0).powi(2));
            assert!(spread >= before - EXACT);
            before = spread;
        }
        assert!((before - v0 * (1.0 - v0)).abs() < EXACT);
    }
}
