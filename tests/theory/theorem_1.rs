//! Theorem 1: `Σ_t A_GAE,t ∇_t = Σ_t δ_t ε_t`.

use crate::tolerance::dot;
use grpo_lambda::advantage::{Delta, gae, td_errors};
use grpo_lambda::trace::{AsPrinted, Both, Recent, RowNormalised, Sequence, Style, Trace, scan};
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

    #[test]
    fn td_errors_of_any_critic_telescope_to_the_return_minus_v0((_, values, _) in response(), reward in -2.0..2.0) {
        let rewards = Delta::Terminal.spread(reward, values.len());
        let sum: f64 = td_errors(&rewards, &values, 1.0).iter().sum();
        prop_assert!((sum - (reward - values[0])).abs() < 1e-12);
    }

    #[test]
    fn the_same_holds_for_operators_that_have_nothing_to_do_with_gae((delta, nabla, _) in response(), q in 0.0..=1.0) {
        let printed = AsPrinted { q, floor: 0.0, style: Style::Both, max_length: None };
        let others: [&dyn Trace; 4] = [&Both { q }, &printed, &Sequence, &RowNormalised(Recent { q })];
        for trace in others {
            prop_assert!((dot(&delta, &trace.apply(&nabla)) - dot(&trace.adjoint(&delta), &nabla)).abs() < 1e-10);
        }
    }
}

#[test]
fn it_holds_for_the_policy_gradients_of_every_mdp_of_the_zoo() {
    for entry in zoo::all() {
        let tree = (entry.build)();
        let policy = (entry.initial)(&tree);
        let oracle = Oracle::new(&tree, &policy);
        for leaf in tree.leaves().step_by(tree.leaf_count().div_ceil(8)) {
            let path = tree.path(leaf);
            let values: Vec<f64> = path.iter().map(|&e| oracle.v[tree.edge_node(e)]).collect();
            let rewards = Delta::Terminal.spread(tree.reward(leaf), path.len());
            // Pulls token weights back to logits: Σ_t w_t ∇log π(a_t|s_t).
            let gradient = |weights: &[f64]| {
                let mut cotangent = vec![0.0; tree.edge_count()];
                path.iter().zip(weights).for_each(|(&e, w)| cotangent[e] += w);
                policy.backward(&tree, &cotangent)
            };
            for q in [0.0, 0.9, 0.99, 1.0] {
                let forward = gradient(&gae(&rewards, &values, 1.0, q));
                let mut backward = vec![0.0; tree.edge_count()];
                for (t, delta) in td_errors(&rewards, &values, 1.0).iter().enumerate() {
                    // ε_t = Σ_k q^(t-k) ∇_k
                    let weights: Vec<f64> =
                        (0..path.len()).map(|k| if k > t { 0.0 } else { q.powi((t - k) as i32) }).collect();
                    backward.iter_mut().zip(gradient(&weights)).for_each(|(b, e)| *b += delta * e);
                }
                for (a, b) in forward.iter().zip(&backward) {
                    assert!((a - b).abs() < 1e-12, "{} {q}: {a} {b}", entry.name);
                }
            }
        }
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
