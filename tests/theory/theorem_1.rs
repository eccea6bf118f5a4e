//! Theorem 1: `Σ_t A_GAE,t ∇_t = Σ_t δ_t ε_t`.

use crate::tolerance::dot;
use grpo_lambda::advantage::{Delta, gae, td_errors};
use grpo_lambda::trace::{Recent, Trace, scan};
use grpo_lambda_mdp::{Oracle, Tabular, zoo};
use num_rational::Ratio;
use proptest::prelude::*;

/// Rewards, values and one component of the gradients of a response of any length.
fn response() -> impl Strategy<Value = (Vec<f64>, Vec<f64>, Vec<f64>)> {
    let column = |len| proptest::collection::vec(-1.0..1.0, len);
    (1usize..=64).prop_flat_map(move |len| (column(len), column(len), column(len)))
}

proptest! {
    #[test]
    fn advantages_times_gradients_are_td_errors_times_traces(
        (rewards, values, nabla) in response(), gamma in 0.0..=1.0, lambda in 0.0..=1.0
    ) {
        let forward = dot(&gae(&rewards, &values, gamma, lambda), &nabla);
        let trace = Recent { q: gamma * lambda };
        let backward = dot(&td_errors(&rewards, &values, gamma), &trace.apply(&nabla));
        prop_assert!((forward - backward).abs() < 1e-11, "{} {}", forward, backward);
    }

    #[test]
    fn the_difference_is_exactly_zero_in_rationals(
        delta in proptest::collection::vec(-64i128..=64, 1..=8), seed in any::<u64>(),
        (numerator, denominator) in prop_oneof![
            Just((0, 1)), Just((1, 2)), Just((9, 10)), Just((49, 50)), Just((99, 100)), Just((1, 1))
        ]
    ) {
        let q = Ratio::new(numerator, denominator);
        let delta: Vec<_> = delta.into_iter().map(|d| Ratio::new(d, 16i128)).collect();
        let nabla: Vec<_> = (0..delta.len()).map(|t| Ratio::new(((seed >> t) % 33) as i128 - 16, 8i128)).collect();
        let (mut advantages, mut traces) = (delta.clone(), nabla.clone());
        scan::decayed_suffix(q, &mut advantages);
        scan::decayed_prefix(q, &mut traces);
        let sum = |a: &[Ratio<i128>], b: &[Ratio<i128>]| a.iter().zip(b).map(|(a, b)| a * b).sum::<Ratio<i128>>();
        prop_assert_eq!(sum(&advantages, &nabla), sum(&delta, &traces));
    }
}

#[test]
fn a_nae_at_every_token_is_no_td_error_it_counts_the_return_t_times() {
    let td = Delta::Terminal.spread(0.625, 256);
    let nae = Delta::Constant.spread(0.625, 256);
    assert_eq!(td.iter().sum::<f64>(), 0.625);
    assert_eq!(nae.iter().sum::<f64>(), 256.0 * 0.625);
    // At λ = 1 the first token's advantage is the whole sum.
    assert_eq!(Recent { q: 1.0 }.adjoint(&nae)[0], 160.0);
}

#[test]
fn cut_after_two_terms_as_the_text_prints_gae_the_theorem_fails() {
    let tree = zoo::full_tree(3, 4).expect("valid");
    let oracle = Oracle::new(&tree, &Tabular::uniform(&tree));
    let leaf = tree.leaves().max_by_key(|&l| tree.leaf_len(l)).expect("not empty");
    let path = tree.path(leaf);
    let values: Vec<f64> = path.iter().map(|&e| oracle.v[tree.edge_node(e)]).collect();
    let rewards = Delta::Terminal.spread(1.0, path.len());
    let delta = td_errors(&rewards, &values, 1.0);
    let full = gae(&rewards, &values, 1.0, 0.9);
    assert!((delta[0] + 0.9 * delta[1] - full[0]).abs() > 0.1);
}
