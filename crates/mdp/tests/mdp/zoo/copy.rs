use grpo_lambda_mdp::zoo::CopyString;
use grpo_lambda_mdp::{Optimal, Oracle, Target};

fn j(family: &CopyString) -> f64 {
    let tree = family.tree().unwrap();
    assert_eq!(Optimal::new(&tree).j, 1.0);
    Oracle::new(&tree, &family.initial(&tree)).j
}

#[test]
fn j_by_hand() {
    // One detour: a detour at each of the four steps, an error and its `del` or a `del` and the symbol again, has (1-p) p in all.
    let one = CopyString::default();
    assert!((j(&one) - 0.6f64.powi(4) * (1.0 + 4.0 * 0.24)).abs() < 1e-15);
    let final_errors = CopyString { detours: 0, ..CopyString::default() };
    assert!((j(&final_errors) - 0.6f64.powi(3)).abs() < 1e-15);
    let two = CopyString { target: vec![1, 0], skill: 0.7, ..CopyString::default() };
    assert!((j(&two) - 0.7f64.powi(3) * (1.0 + 3.0 * 0.21)).abs() < 1e-15);
}

#[test]
fn an_error_is_recoverable_and_costs_two_tokens() {
    let family = CopyString::default();
    let tree = family.tree().unwrap();
    let (del, eos) = (family.del(), family.eos());
    for (tokens, reward) in [
        (vec![0, 1, 1, eos], 1.0),
        (vec![1, del, 0, 1, 1, eos], 1.0),
        (vec![0, 1, 1, del, 1, eos], 1.0),
        (vec![0, 1, 0, eos], 0.0),
    ] {
        let Some(Target::Leaf(leaf)) = tree.find(&tokens) else { panic!("{tokens:?} is a response") };
        assert_eq!(tree.reward(leaf), reward, "{tokens:?}");
    }
    let oracle = Oracle::new(&tree, &family.initial(&tree));
    let Some(Target::Node(error)) = tree.find(&[1]) else { panic!("a prefix") };
    assert!((oracle.v[error] - 0.6f64.powi(5)).abs() < 1e-15, "no room for a second error");
}

#[test]
fn knobs_out_of_range_are_refused_by_name() {
    let refuse = |family: CopyString| family.tree().unwrap_err().to_string();
    assert_eq!(
        refuse(CopyString { target: vec![0, 2], ..CopyString::default() }),
        "copy: target = 2 must be below symbols"
    );
    assert_eq!(
        refuse(CopyString { target: vec![], ..CopyString::default() }),
        "copy: target = 0 must be at least one symbol long"
    );
}
