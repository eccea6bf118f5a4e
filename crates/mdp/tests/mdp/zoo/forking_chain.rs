use grpo_lambda_mdp::zoo::{Branch, ForkingChain};
use grpo_lambda_mdp::{Oracle, Target};

#[test]
fn patience_pays_and_the_short_branch_is_the_best() {
    let family = ForkingChain::default();
    let tree = family.tree().unwrap();
    let oracle = Oracle::new(&tree, &family.initial(&tree));
    let mut node = 0;
    let mut before = 0.0;
    loop {
        let q: Vec<f64> = tree.edges_of(node).map(|e| oracle.q[e]).collect();
        assert!(q[0] > q[1] && q[1] > q[2] && q[0] > before, "{q:?}");
        before = q[0];
        let Some(Target::Node(next)) = tree.edge(node, 3).map(|e| tree.target(e)) else { break };
        node = next;
    }
    assert_eq!((tree.depth(node), before), (3, 0.9));
    // `on on sharp EOS` has four tokens, `slow` at once eight.
    let lengths: Vec<usize> = tree.leaves().map(|l| tree.leaf_len(l)).collect();
    assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&2), Some(&11)));
}

#[test]
fn knobs_out_of_range_are_refused_by_name() {
    let refuse = |family: ForkingChain| family.tree().unwrap_err().to_string();
    let wrong = ForkingChain { forks: 0, ..ForkingChain::default() };
    assert_eq!(refuse(wrong), "forking_chain: forks = 0 must be at least 1");
    let wrong = ForkingChain { branches: vec![Branch::new("x", 1, 0.5, 1.0)], ..ForkingChain::default() };
    assert_eq!(refuse(wrong), "forking_chain: length = 1 must be at least 2");
}
