//! Edge advantages on the prefix tree of a group: SPO-tree, TreeRL, TreeRPO.

use super::{EXACT, cosine, gap, grad, re_weighted, tiny, update};
use crate::laboratory::{laid_out, method};
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::expected::{Branching, EntropySearch, Situation, TreeSampling, branched, sampled};
use grpo_lambda_mdp::zoo::Random;
use grpo_lambda_mdp::zoo::RandomRewards::{Bits, Probabilities, Real};
use grpo_lambda_mdp::{Rules, Tabular};

#[test]
fn spo_tree_is_the_policy_gradient_times_the_expected_other_visits_of_each_prefix() {
    // E (n-1)^+ = G d - 1 + (1-d)^G: a response alone at a prefix has nobody to differ from.
    for (seed, rewards) in [(0, Bits), (1, Probabilities), (2, Real)] {
        let (tree, policy) = tiny(seed, rewards);
        let oracle = Oracle::new(&tree, &policy);
        for g in [2usize, 3] {
            let n = g as f64;
            let want = re_weighted(&oracle, |d| (n * d - 1.0 + (1.0 - d).powi(g as i32)) / (n * d));
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
            let want = re_weighted(&oracle, |d| {
                let others = n * d - 1.0 + (1.0 - d).powi(g as i32); // E (n_s - 1)^+
                let met = 1.0 - (1.0 - d).powi(g as i32); // P(n_s > 0)
                // Per visited prefix: 2 (n_s - 1) from the differences, 1 from V; all in units of g_s. Leave-one-out rewards are the centred ones
                // times G/(G-1); the group mean they subtract is leave-in once more.
                n / (n - 1.0) * (2.0 * others + met - d) / (n * d)
            });
            let centred = update("tree_rl reduction=response_sum", &tree, &policy, g);
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

/// The largest difference of a method's update on sampled trees to the gradient times a factor per level, in standard errors.
fn off(name: &str, children: [usize; 3], factor: impl Fn(usize) -> f64) -> f64 {
    let branching = Branching { children: children.to_vec(), segment: 2 };
    let method = method(name, "reduction=response_sum");
    let mut worst = 0.0_f64;
    for (seed, rewards) in [(0, Bits), (1, Probabilities), (2, Real)] {
        let (tree, policy) = laid_out(&Random { seed, symbols: 2, horizon: 6, rewards, ..Random::default() });
        let situation = Situation::on_policy(&tree, &policy, branching.leaves());
        let found = branched(method.as_ref(), &situation, &branching, 20_000, seed);
        let oracle = Oracle::new(&tree, &policy);
        // Where a prefix is rare, a standard error is no bound.
        for e in tree.edges().filter(|&e| oracle.visit[tree.edge_node(e)] > 0.01) {
            let want = oracle.grad_j()[e] * factor(branching.level(tree.depth(tree.edge_node(e))));
            let off = (found.estimate.update[e] - want).abs();
            assert!(found.standard_error[e] > 0.0 || off < EXACT);
            worst = worst.max(if off < EXACT { 0.0 } else { off / found.standard_error[e] });
        }
    }
    worst
}

#[test]
fn on_trees_that_it_samples_itself_spo_tree_is_the_policy_gradient() {
    // Each level has its (b-1)/b: with as many children everywhere the update is unbiased.
    assert!(off("spo_tree", [2, 2, 2], |_| 0.5) < 5.0);
    assert!(off("spo_tree", [3, 2, 1], |level| [2.0 / 3.0, 0.5, 0.0][level]) < 5.0);
    // The check can fail: on independent responses the factor depends on the prefix.
    assert!(off("spo_tree", [2, 2, 2], |level| [0.5, 0.5, 0.6][level]) > 10.0);
}

#[test]
fn on_trees_of_fixed_intervals_tree_rl_weighs_later_levels_more() {
    // N/(N-1) ((b-1)/b + 1 - 1/B), B the nodes of the level: the value of a node holds its own part of the mean of all leaves.
    let factor = |level: usize| 8.0 / 7.0 * (0.5 + 1.0 - [0.5, 0.25, 0.125][level]);
    assert!(off("tree_rl", [2, 2, 2], factor) < 5.0);
}

#[test]
fn a_tree_writes_fewer_tokens_than_as_many_responses() {
    let tree = Rules::new(["a", "b", "EOS"], 5)
        .build(|p| if p.len() == 4 { vec![2] } else { vec![0, 1] }, |_, _| 1.0);
    let tree = tree.expect("valid");
    let oracle = Oracle::new(&tree, &Tabular::uniform(&tree));
    // Two segments of two tokens, the last of one: 2 x 2 + 4 x 2 + 8 x 1 tokens, against 8 x 5.
    assert_eq!(Branching { children: vec![2, 2, 2], segment: 2 }.tokens(&oracle), 20.0);
    assert_eq!(Branching { children: vec![8], segment: 1 }.tokens(&oracle), 40.0);
}

#[test]
fn the_entropy_search_without_forks_is_independent_sampling_to_the_bit() {
    let (tree, policy) = tiny(1, Probabilities);
    let rloo = method("rloo", "reduction=response_sum");
    let situation = Situation::on_policy(&tree, &policy, 5);
    let search = EntropySearch { chains: 5, forks: 0, branches: 2 };
    let found = branched(rloo.as_ref(), &situation, &search, 50, 3);
    assert_eq!(found, sampled(rloo.as_ref(), &situation, 50, 3));
}

#[test]
fn on_the_entropy_search_tree_rl_has_the_update_that_enumeration_gives() {
    // One chain y, one branch y' at its more surprising token t. Of two leaves R = ±(r - r'), and V of what they share is 0: what comes before t
    // gets 0, what follows (V - 0) + V = 2 R.
    let method = method("tree_rl", "reduction=response_sum");
    let search = EntropySearch { chains: 1, forks: 1, branches: 1 };
    let mut least = 1.0_f64;
    for seed in 0..3 {
        let (tree, policy) =
            laid_out(&Random { seed, symbols: 3, horizon: 3, rewards: Real, ..Random::default() });
        let oracle = Oracle::new(&tree, &policy);
        let mut per_edge = vec![0.0; tree.edge_count()];
        let mut tokens = 0.0;
        for y in tree.leaves() {
            let path = tree.path(y);
            let unlikely = |t: &usize| (oracle.probs[path[*t]] * 1e9) as u64;
            let t = (0..path.len()).min_by_key(unlikely).expect("tokens");
            let node = tree.edge_node(path[t]);
            for other in tree.leaves() {
                let again = tree.path(other);
                if again.get(t).is_none_or(|&e| tree.edge_node(e) != node) {
                    continue;
                }
                let p = oracle.leaf_prob(y) * oracle.leaf_prob(other) / oracle.visit[node];
                let gain = tree.reward(y) - tree.reward(other);
                path[t..].iter().for_each(|&e| per_edge[e] += p * gain);
                again[t..].iter().for_each(|&e| per_edge[e] -= p * gain);
                tokens += p * (path.len() + again.len() - t) as f64;
            }
        }
        assert!((search.tokens(&oracle) - tokens).abs() < EXACT);
        let want = policy.backward(&tree, &per_edge);
        let situation = Situation::on_policy(&tree, &policy, search.leaves());
        let found = branched(method.as_ref(), &situation, &search, 40_000, seed);
        for (e, want) in want.iter().enumerate().filter(|(_, want)| want.abs() > 1e-3) {
            let off = (found.estimate.update[e] - want).abs() / found.standard_error[e];
            assert!(off < 5.0, "{seed}: edge {e}: {off} standard errors from {want}");
        }
        least = cosine(&want, &grad(&tree, &policy)).min(least);
    }
    // The token where the search forks was picked because it is unlikely, so that the update need not be along the gradient.
    assert!(least < 0.98, "{least}");
    assert_eq!(EntropySearch::PUBLISHED.leaves(), 30);
}
