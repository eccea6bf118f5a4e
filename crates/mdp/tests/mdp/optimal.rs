use crate::testing::{EXACT, any_mdp, brute_j};
use grpo_lambda_mdp::{Optimal, Oracle, Rules, Tabular, Tree};
use proptest::prelude::*;

/// The greatest `γ^(T-1) E[R|y]`: with deterministic transitions a deterministic policy is a choice of
/// one response.
fn best_response(tree: &Tree) -> f64 {
    let discounted = |leaf| tree.gamma().powi(tree.leaf_len(leaf) as i32 - 1) * tree.reward(leaf);
    tree.leaves().map(discounted).fold(f64::NEG_INFINITY, f64::max)
}

proptest! {
    #[test]
    fn j_star_is_the_best_response_and_is_reached_by_the_choices((tree, policy) in any_mdp()) {
        let best = Optimal::new(&tree);
        prop_assert!((best.j - best_response(&tree)).abs() < EXACT);
        let mut probs = vec![0.0; tree.edge_count()];
        best.choice.iter().for_each(|&edge| probs[edge] = 1.0);
        prop_assert!((brute_j(&tree, &probs) - best.j).abs() < EXACT);
        let oracle = Oracle::new(&tree, &policy);
        prop_assert!(tree.nodes().all(|n| oracle.v[n] <= best.v[n] + EXACT));
        prop_assert!(tree.edges().all(|e| oracle.q[e] <= best.q[e] + EXACT));
    }
}

#[test]
fn gradient_ascent_approaches_j_star() {
    let tree = Rules::new(["a", "b", "E"], 3)
        .build(|_| vec![0, 1, 2], |response, _| if response == [1, 0, 2] { 0.9 } else { 0.1 })
        .unwrap();
    let mut policy = Tabular::uniform(&tree);
    for _ in 0..2000 {
        let gradient = Oracle::new(&tree, &policy).grad_j();
        policy.step(&gradient, 5.0);
    }
    assert!((Oracle::new(&tree, &policy).j - Optimal::new(&tree).j).abs() < 1e-3);
}
