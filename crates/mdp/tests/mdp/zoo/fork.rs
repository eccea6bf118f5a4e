use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::Fork;

/// `c_0 = Σ_{t<T} q^t`: what the trace of GRPO-lambda gives the first of `T` tokens.
fn first_weight(q: f64, len: usize) -> f64 {
    (1.0 - q.powi(len as i32)) / (1.0 - q)
}

#[test]
fn the_trace_prefers_the_long_worse_answer() {
    let tree = Fork::default().tree().unwrap();
    let oracle = Oracle::new(&tree, &Fork::default().initial(&tree));
    let credit = oracle.implied_credit(|leaf, reward, w| {
        w.fill((reward - oracle.j) * first_weight(0.99, tree.leaf_len(leaf)));
    });
    assert!((credit[0] - 1.29).abs() < 5e-3 && (credit[1] - 21.7).abs() < 5e-2, "{:?}", &credit[..2]);
    assert!(oracle.advantage(0) > oracle.advantage(1));
}

#[test]
fn two_branches_by_their_knobs() {
    let fork = Fork::two([2, 30], [0.5, 0.25], 0.75);
    let tree = fork.tree().unwrap();
    let oracle = Oracle::new(&tree, &fork.initial(&tree));
    assert!((oracle.j - 0.4375).abs() < 1e-15);
    assert!((oracle.mean_length() - 9.0).abs() < 1e-12);
    assert_eq!((tree.leaf_count(), tree.node_count()), (2, 1 + 1 + 29));
}
