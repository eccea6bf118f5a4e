use crate::testing::{EXACT, any_mdp, binary_mdp};
use grpo_lambda_mdp::Oracle;
use proptest::prelude::*;

proptest! {
    #[test]
    fn survival_is_the_probability_of_a_longer_response((tree, policy) in any_mdp()) {
        let oracle = Oracle::new(&tree, &policy);
        let (lengths, process) = (oracle.length_distribution(), oracle.process());
        prop_assert_eq!(lengths[0], 0.0);
        for t in 0..=tree.max_len() {
            let longer = oracle.expect(|leaf| f64::from(tree.leaf_len(leaf) > t));
            prop_assert!((oracle.survival(t) - longer).abs() < EXACT);
            prop_assert!((process[t].survival - longer).abs() < EXACT);
            prop_assert!((lengths[t + 1..].iter().sum::<f64>() - longer).abs() < EXACT);
            prop_assert!((process[t].alive_value - oracle.alive_value(t)).abs() < EXACT);
        }
        let mean: f64 = lengths.iter().enumerate().map(|(t, p)| t as f64 * p).sum();
        prop_assert!((oracle.mean_length() - mean).abs() < EXACT * 10.0);
        prop_assert_eq!(oracle.survival(tree.max_len()), 0.0);
    }

    #[test]
    fn the_stopped_value_is_a_martingale_with_growing_spread((tree, policy) in any_mdp()) {
        let oracle = Oracle::new(&tree, &policy);
        let process = oracle.process();
        let total = oracle.variances()[0];
        prop_assert!(process[0].spread.abs() < EXACT);
        prop_assert!(process[tree.max_len()].remaining.abs() < EXACT);
        for (t, step) in process.iter().enumerate() {
            prop_assert!((step.mean - oracle.j).abs() < EXACT);
            prop_assert!((step.spread + step.remaining - total).abs() < EXACT * 10.0);
            prop_assert!(t == 0 || step.spread >= process[t - 1].spread - EXACT);
            prop_assert!(t == 0 || step.remaining <= process[t - 1].remaining + EXACT);
        }
    }

    #[test]
    fn v0_is_the_reward_received_plus_the_discounted_value_alive((tree, policy) in any_mdp()) {
        // The reward received, directly: E[Σ_{k<t} γ^k r_k] with r_k = R at k = τ - 1.
        let oracle = Oracle::new(&tree, &policy);
        for t in 0..=tree.max_len() {
            let received = oracle.expect(|leaf| {
                (0..t).map(|k| {
                    let last = k + 1 == tree.leaf_len(leaf);
                    if last { tree.gamma().powi(k as i32) * tree.reward(leaf) } else { 0.0 }
                }).sum()
            });
            let alive = tree.gamma().powi(t as i32) * oracle.alive_value(t);
            prop_assert!((received + alive - oracle.j).abs() < EXACT);
            prop_assert!((oracle.process()[t].finished_reward - received).abs() < EXACT);
        }
    }

    #[test]
    fn the_corrected_lemma_1_holds_for_binary_rewards((tree, policy) in binary_mdp(0.0..=1.0)) {
        let oracle = Oracle::new(&tree, &policy);
        for (t, step) in oracle.process().iter().enumerate() {
            let gap = oracle.j - tree.gamma().powi(t as i32) * step.alive_value;
            prop_assert!(gap >= -EXACT && gap <= 1.0 - step.survival + EXACT);
        }
        // Without discount the spread ends at the variance of a coin.
        let tree = tree.with_gamma(1.0);
        let oracle = Oracle::new(&tree, &policy);
        let last = oracle.process()[tree.max_len()];
        prop_assert!((last.spread - oracle.j * (1.0 - oracle.j)).abs() < EXACT);
    }

    #[test]
    fn survival_is_the_mean_path_product_without_eos((tree, policy) in any_mdp()) {
        let oracle = Oracle::new(&tree, &policy);
        let (products, visits) = (oracle.path_products(), oracle.visits_without_eos());
        let end = |node| tree.eos_edge(node).map_or(0.0, |e| oracle.probs[e]);
        for node in tree.nodes() {
            let mut product = 1.0;
            let mut at = node;
            while let Some(edge) = tree.parent_edge(at) {
                at = tree.edge_node(edge);
                product *= 1.0 - end(at);
            }
            prop_assert!((products[node] - product).abs() < EXACT);
        }
        for t in 0..=tree.max_len() {
            let mean: f64 = tree.nodes_at(t).map(|n| visits[n] * products[n]).sum();
            prop_assert!((mean - oracle.survival(t)).abs() < EXACT);
            prop_assert!(tree.nodes_at(t).map(|n| visits[n]).sum::<f64>() < 1.0 + EXACT);
        }
    }

    #[test]
    fn the_variance_of_the_return_agrees_with_enumeration((tree, policy) in any_mdp()) {
        let oracle = Oracle::new(&tree, &policy);
        let g = |leaf| tree.gamma().powi(tree.leaf_len(leaf) as i32 - 1);
        let variance = oracle.expect_outcome(|leaf, r| (g(leaf) * r - oracle.j).powi(2));
        prop_assert!((oracle.variances()[0] - variance).abs() < EXACT * 10.0);
    }
}
