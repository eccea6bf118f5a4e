use grpo_lambda_mdp::zoo::Family;
use grpo_lambda_mdp::{Oracle, Tabular, zoo};

#[test]
fn probabilities_sum_to_one_even_with_huge_logits() {
    let tree = zoo::full_tree(4, 3).unwrap();
    for scale in [0.0, 1.0, 400.0] {
        let policy = Tabular::random(&tree, 3, scale);
        assert!(policy.log_probs(&tree).iter().all(|x| x.is_finite() && *x <= 0.0));
        let probs = policy.probs(&tree);
        for node in tree.nodes() {
            assert!((probs[tree.edges_of(node)].iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }
}

#[test]
fn adding_a_constant_to_a_prefix_changes_nothing() {
    let tree = zoo::full_tree(3, 3).unwrap();
    let policy = Tabular::random(&tree, 4, 1.0);
    let shifted: Vec<f64> =
        tree.edges().map(|e| policy.logits[e] + 10.0 * tree.edge_node(e) as f64).collect();
    let shifted = Tabular::from_logits(&tree, shifted);
    for (a, b) in policy.log_probs(&tree).iter().zip(shifted.log_probs(&tree)) {
        assert!((a - b).abs() < 1e-12);
    }
}

#[test]
fn weights_become_probabilities() {
    let tree = zoo::LemmaCounterexample.tree().unwrap();
    let policy = Tabular::from_weights(&tree, |_, e| if e == 0 { 3.0 } else { 1.0 });
    let probs = policy.probs(&tree);
    assert!((probs[0] - 0.75).abs() < 1e-15 && (probs[1] - 0.25).abs() < 1e-15 && probs[2] == 1.0);
}

#[test]
fn backward_is_the_gradient_of_a_linear_function_of_log_probs() {
    let tree = zoo::full_tree(3, 3).unwrap();
    let policy = Tabular::random(&tree, 5, 1.0);
    let cotangent = Tabular::random(&tree, 6, 1.0).logits;
    let gradient = policy.backward(&tree, &cotangent);
    let value = |policy: &Tabular| -> f64 {
        policy.log_probs(&tree).iter().zip(&cotangent).map(|(x, c)| x * c).sum()
    };
    for edge in tree.edges() {
        let at = |h: f64| {
            let mut moved = policy.clone();
            moved.logits[edge] += h;
            value(&moved)
        };
        let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!((numeric - gradient[edge]).abs() < 1e-8, "{numeric} {}", gradient[edge]);
    }
}

#[test]
fn the_policy_gradient_theorem_is_backward_of_visit_times_q() {
    let tree = zoo::full_tree(3, 4).unwrap();
    let policy = Tabular::random(&tree, 7, 1.0);
    let oracle = Oracle::new(&tree, &policy);
    let cotangent: Vec<f64> = tree.edges().map(|e| oracle.edge_visit(e) * oracle.q[e]).collect();
    for (a, b) in policy.backward(&tree, &cotangent).iter().zip(oracle.grad_j()) {
        assert!((a - b).abs() < 1e-14);
    }
}

#[test]
fn a_step_along_the_gradient_raises_j() {
    let tree = zoo::full_tree(3, 4).unwrap();
    let mut policy = Tabular::uniform(&tree);
    let before = Oracle::new(&tree, &policy);
    policy.step(&before.grad_j(), 0.1);
    assert!(Oracle::new(&tree, &policy).j > before.j);
}
