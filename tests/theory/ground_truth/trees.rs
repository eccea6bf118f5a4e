//! Edge advantages on the prefix tree of a group: SPO-tree, TreeRL, TreeRPO.

use super::{EXACT, cosine, gap, grad, tiny, update};
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::RandomRewards::{Bits, Probabilities, Real};

#[test]
fn spo_tree_is_the_policy_gradient_times_the_expected_other_visits_of_each_prefix() {
    // E (n-1)^+ = G d - 1 + (1-d)^G: a response alone at a prefix has nobody to differ from.
    for (seed, rewards) in [(0, Bits), (1, Probabilities), (2, Real)] {
        let (tree, policy) = tiny(seed, rewards);
        let oracle = Oracle::new(&tree, &policy);
        for g in [2usize, 3] {
            let n = g as f64;
            let want = |(e, grad): (usize, &f64)| {
                let d = oracle.visit[tree.edge_node(e)];
                grad * (n * d - 1.0 + (1.0 - d).powi(g as i32)) / (n * d)
            };
            let want: Vec<f64> = oracle.grad_j().iter().enumerate().map(want).collect();
            let got = update("spo_tree reduction=response_sum", &tree, &policy, g);
            assert!(gap(&got, &want) < EXACT, "{seed} {g}");
        }
    }
}

#[test]
fn tree_rl_is_twice_the_edges_plus_a_baseline_and_hence_a_multiple_of_the_gradient_per_prefix() {
    // (V' - V) + V' = 2 (V' - V) + V, with V centred by leave-one-out. V holds the response's own reward, so it is no baseline: its part is
    // the leave-in of the edges, E[V grad log pi] = g_s / n per visit.
    for (seed, rewards) in [(0, Bits), (1, Probabilities), (2, Real)] {
        let (tree, policy) = tiny(seed, rewards);
        let oracle = Oracle::new(&tree, &policy);
        for g in [2usize, 3] {
            let n = g as f64;
            let (edge, all) = (n / (n - 1.0), n);
            let want = |(e, grad): (usize, &f64)| {
                let d = oracle.visit[tree.edge_node(e)];
                let others = all * d - 1.0 + (1.0 - d).powi(g as i32); // E (n_s - 1)^+
                let met = 1.0 - (1.0 - d).powi(g as i32); // P(n_s > 0)
                // Per visited prefix: 2 (n_s - 1) from the differences, 1 from V; all in units of g_s.
                grad * edge * (2.0 * others + met) / (n * d)
            };
            let centred = update("tree_rl reduction=response_sum", &tree, &policy, g);
            let want: Vec<f64> = oracle.grad_j().iter().enumerate().map(want).collect();
            // Leave-one-out rewards are the centred ones times G/(G-1); the group mean they subtract is leave-in once more.
            let mean = |(e, grad): (usize, &f64)| {
                let d = oracle.visit[tree.edge_node(e)];
                grad * edge * d / (n * d)
            };
            let mean: Vec<f64> = oracle.grad_j().iter().enumerate().map(mean).collect();
            let want: Vec<f64> = want.iter().zip(&mean).map(|(w, m)| w - m).collect();
            assert!(gap(&centred, &want) < EXACT, "{seed} {g}: {}", gap(&centred, &want));
        }
    }
}

#[test]
fn scores_among_siblings_have_the_sign_of_the_advantage_and_not_its_size() {
    let (tree, policy) = tiny(4, Bits);
    let gradient = grad(&tree, &policy);
    let scores = update("tree_rpo_reconstructed reduction=response_sum", &tree, &policy, 3);
    let cos = cosine(&scores, &gradient);
    assert!(cos > 0.7 && cos < 1.0 - 1e-6, "{cos}");
    for (e, g) in gradient.iter().enumerate().filter(|(_, g)| g.abs() > 1e-9) {
        assert!(scores[e] * g > 0.0, "edge {e}");
    }
}
