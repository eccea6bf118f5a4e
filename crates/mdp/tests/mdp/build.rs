use grpo_lambda_mdp::{RewardKind, Rules, TreeError};

fn message(rules: Rules, legal: &[u32], reward: f64) -> String {
    rules.build(|_| legal.to_vec(), |_, _| reward).unwrap_err().to_string()
}

#[test]
fn errors_name_the_field_the_value_and_the_bound() {
    let rules = || Rules::new(["a", "E"], 2);
    assert_eq!(message(Rules::new(["a", "a"], 2), &[0], 0.0), "tokens: `a` occurs more than once");
    assert_eq!(
        message(Rules { eos: 7, ..rules() }, &[0], 0.0),
        "eos = 7 must be below the 2 tokens of the vocabulary"
    );
    for horizon in [0, 10_001] {
        let said = message(Rules::new(["a", "E"], horizon), &[0], 0.0);
        assert_eq!(said, format!("horizon = {horizon} must be from 1 to 10000"));
    }
    assert_eq!(message(Rules { gamma: 1.5, ..rules() }, &[0], 0.0), "gamma = 1.5 must be in [0, 1]");
    assert_eq!(message(Rules { gamma: f64::NAN, ..rules() }, &[0], 0.0), "gamma = NaN must be in [0, 1]");
    assert_eq!(message(rules(), &[], 0.0), "legal: no token is legal at prefix `(prompt)`");
    assert!(message(rules(), &[0, 5], 0.0).starts_with("legal: token 5 at prefix `(prompt)` must be below"));
    assert_eq!(
        message(rules(), &[0, 1, 0], 0.0),
        "legal: token `a` occurs more than once at prefix `(prompt)`"
    );
    assert_eq!(
        message(rules(), &[0, 1], 1.5),
        "reward = 1.5 of response `E` must be a probability in [0, 1] (binary rewards)"
    );
    assert_eq!(
        message(rules().rewards(RewardKind::Real), &[0], f64::INFINITY),
        "reward = inf of response `a a` must be from -1e30 to 1e30"
    );
}

#[test]
fn a_tree_that_is_too_large_is_refused_long_before_it_is_enumerated() {
    let mut calls = 0;
    let all: Vec<u32> = (0..100).collect();
    let rules = Rules { max_leaves: 1000, ..Rules::new((0..101).map(|i| i.to_string()), 50) };
    let error = rules.build(
        |_| {
            calls += 1;
            all.clone()
        },
        |_, _| 0.0,
    );
    assert_eq!(error.unwrap_err(), TreeError::TooManyLeaves(1000));
    assert!(calls < 20, "{calls}");
}

#[test]
fn the_limit_on_leaves_is_exact() {
    let build = |max_leaves| {
        let rules = Rules { max_leaves, ..Rules::new(["a", "b", "E"], 3) };
        rules.build(|_| vec![0, 1, 2], |_, _| 0.0).map(|tree| tree.leaf_count())
    };
    assert_eq!(build(15), Ok(15));
    assert_eq!(build(14), Err(TreeError::TooManyLeaves(14)));
}
