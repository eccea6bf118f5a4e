use grpo_lambda_mdp::{Oracle, Tabular, has_success_rate, zoo};

/// The definition by responses: `P'(y, r) ∝ P(y, r) w^r`.
#[test]
fn responses_keep_their_relative_probabilities() {
    for named in zoo::all() {
        let tree = (named.build)();
        let policy = (named.initial)(&tree);
        let oracle = Oracle::new(&tree, &policy);
        for rate in [0.1, 0.5, 0.97] {
            let Some(tilted) = oracle.at_success_rate(rate) else {
                assert!(!has_success_rate(&tree), "{}", named.name);
                continue;
            };
            let there = Oracle::new(&tree, &tilted);
            assert!((there.j - rate).abs() < 1e-9, "{}: {} for {rate}", named.name, there.j);
            for leaf in tree.leaves() {
                let right = tree.reward(leaf);
                let share = right * rate / oracle.j + (1.0 - right) * (1.0 - rate) / (1.0 - oracle.j);
                let gap = there.leaf_prob(leaf) - oracle.leaf_prob(leaf) * share;
                assert!(gap.abs() < 1e-9, "{} at {rate}: {gap}", named.name);
            }
        }
    }
}

#[test]
fn what_is_no_success_rate_is_none() {
    let tree = (zoo::find("pivot").expect("known").build)();
    let oracle = Oracle::new(&tree, &Tabular::uniform(&tree));
    for rate in [0.0, 1.0, -0.5, 1.5, f64::NAN] {
        assert!(oracle.at_success_rate(rate).is_none(), "{rate}");
    }
    let partial = (zoo::find("chain_partial").expect("known").build)();
    assert!(Oracle::new(&partial, &Tabular::uniform(&partial)).at_success_rate(0.5).is_none());
}
