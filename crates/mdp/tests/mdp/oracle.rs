use crate::testing::{EXACT, any_mdp, brute_j};
use grpo_lambda_mdp::{Oracle, Tabular, Tree, zoo};
use proptest::prelude::*;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < EXACT * (1.0 + b.abs())
}

/// For each edge: `P` of taking it, and the sum over responses through it of `P(y) γ^(T-1-t) E[R|y]`.
fn enumerate(tree: &Tree, probs: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (mut visit, mut value) = (vec![0.0; tree.edge_count()], vec![0.0; tree.edge_count()]);
    for leaf in tree.leaves() {
        let path = tree.path(leaf);
        let p: f64 = path.iter().map(|&e| probs[e]).product();
        for (t, &edge) in path.iter().enumerate() {
            visit[edge] += p;
            value[edge] += p * tree.gamma().powi((path.len() - 1 - t) as i32) * tree.reward(leaf);
        }
    }
    (visit, value)
}

proptest! {
    #[test]
    fn everything_agrees_with_brute_force_enumeration((tree, policy) in any_mdp()) {
        let oracle = Oracle::new(&tree, &policy);
        let (visit, value) = enumerate(&tree, &oracle.probs);
        prop_assert!(close(oracle.j, brute_j(&tree, &oracle.probs)));
        prop_assert!(close(oracle.leaf_probs().iter().sum(), 1.0));
        for node in tree.nodes() {
            let edges = tree.edges_of(node);
            prop_assert!(close(oracle.probs[edges.clone()].iter().sum(), 1.0));
            prop_assert!(close(oracle.visit[node], edges.clone().map(|e| visit[e]).sum()));
            let expected: f64 = edges.clone().map(|e| value[e]).sum();
            prop_assert!(close(oracle.visit[node] * oracle.v[node], expected));
            prop_assert!(close(edges.clone().map(|e| oracle.probs[e] * oracle.advantage(e)).sum(), 0.0));
            for edge in edges {
                prop_assert!(close(oracle.edge_visit(edge), visit[edge]));
                prop_assert!(close(oracle.edge_visit(edge) * oracle.q[edge], value[edge]));
            }
        }
        for leaf in tree.leaves() {
            let log_prob: f64 = tree.path(leaf).iter().map(|&e| oracle.log_probs[e]).sum();
            prop_assert!(close(oracle.leaf_prob(leaf), log_prob.exp()));
        }
    }

    #[test]
    fn the_gradient_agrees_with_finite_differences_of_j((tree, policy) in any_mdp()) {
        let gradient = Oracle::new(&tree, &policy).grad_j();
        for edge in tree.edges() {
            let at = |h: f64| {
                let mut moved = policy.clone();
                moved.logits[edge] += h;
                brute_j(&tree, &moved.probs(&tree))
            };
            let h = 1e-3;
            // Five points: the error is of order h^4.
            let numeric = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
            prop_assert!((numeric - gradient[edge]).abs() < 1e-8, "{} {}", numeric, gradient[edge]);
        }
    }

    #[test]
    fn expectations_of_outcomes_and_the_reward_distribution_agree((tree, policy) in any_mdp()) {
        let tree = tree.with_gamma(1.0);
        let oracle = Oracle::new(&tree, &policy);
        let distribution = oracle.reward_distribution();
        prop_assert!(close(distribution.iter().map(|&(_, p)| p).sum(), 1.0));
        prop_assert!(distribution.windows(2).all(|w| w[0].0 < w[1].0));
        let mean: f64 = distribution.iter().map(|&(r, p)| r * p).sum();
        prop_assert!(close(mean, oracle.j));
        prop_assert!(close(oracle.expect_outcome(|_, r| r), oracle.j));
        let variance: f64 = distribution.iter().map(|&(r, p)| p * (r - mean) * (r - mean)).sum();
        prop_assert!(close(oracle.variances()[0], variance));
    }

    #[test]
    fn conditional_expectations_of_the_reward_are_q((tree, policy) in any_mdp()) {
        let tree = tree.with_gamma(1.0);
        let oracle = Oracle::new(&tree, &policy);
        let given = oracle.expect_given_edge(|leaf| tree.reward(leaf));
        let credit = oracle.implied_credit(|_, reward, w| w.fill(reward));
        for edge in tree.edges() {
            prop_assert!(close(given[edge], oracle.q[edge]));
            prop_assert!(close(credit[edge], oracle.q[edge]));
        }
        for (a, b) in oracle.update_of_credit(&credit).iter().zip(oracle.grad_j()) {
            prop_assert!((a - b).abs() < EXACT);
        }
    }

    #[test]
    fn the_expected_update_of_any_weights_follows_from_their_implied_credit((tree, policy) in any_mdp()) {
        // Weights that depend on position, length and reward, checked against E[Σ_t w_t ∇log π(a_t|s_t)].
        let weight = |t: usize, len: usize, reward: f64| {
            (reward - 0.3) * 0.9f64.powi((len - t) as i32) + t as f64
        };
        let oracle = Oracle::new(&tree, &policy);
        let credit = oracle.implied_credit(|leaf, reward, w| {
            let len = tree.leaf_len(leaf);
            (0..len).for_each(|t| w[t] = weight(t, len, reward));
        });
        let mut cotangent = vec![0.0; tree.edge_count()];
        for leaf in tree.leaves() {
            let path = tree.path(leaf);
            for (reward, p) in tree.outcomes(leaf) {
                for (t, &edge) in path.iter().enumerate() {
                    cotangent[edge] += oracle.leaf_prob(leaf) * p * weight(t, path.len(), reward);
                }
            }
        }
        for (a, b) in oracle.update_of_credit(&credit).iter().zip(policy.backward(&tree, &cotangent)) {
            prop_assert!((a - b).abs() < EXACT * 10.0);
        }
    }
}

#[test]
fn a_uniform_policy_has_the_greatest_entropy() {
    let tree = zoo::full_tree(4, 2).unwrap();
    let entropies = Oracle::new(&tree, &Tabular::uniform(&tree)).entropies();
    assert!(entropies.iter().all(|h| close(*h, 4f64.ln())));
    let entropies = Oracle::new(&tree, &Tabular::random(&tree, 1, 3000.0)).entropies();
    assert!(entropies.iter().all(|h| (0.0..4f64.ln()).contains(h)), "{entropies:?}");
}
