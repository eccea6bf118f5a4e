use grpo_lambda_mdp::zoo::CarryAdd;
use grpo_lambda_mdp::{Oracle, Target};

/// The token after the ten digits.
const EOS: u32 = 10;

#[test]
fn digits_by_hand() {
    // 47 + 85 = 132: 7 + 5 = 12, 4 + 8 + 1 = 13 (12 without the carry), 0 + 0 + 1.
    assert_eq!(CarryAdd::default().digits(), [(2, 2), (3, 2), (1, 0)]);
    assert_eq!(CarryAdd { a: 0, b: 0, ..CarryAdd::default() }.digits(), [(0, 0)]);
    assert_eq!(CarryAdd { a: 999, b: 0, ..CarryAdd::default() }.digits().len(), 3);
}

#[test]
fn one_response_is_rewarded_and_an_error_leaves_nothing_to_be_won() {
    let family = CarryAdd::default();
    let tree = family.tree().unwrap();
    assert_eq!(tree.leaves().map(|l| tree.reward(l)).sum::<f64>(), 1.0);
    let Some(Target::Leaf(leaf)) = tree.find(&[2, 3, 1, EOS]) else { panic!("a response") };
    assert_eq!(tree.reward(leaf), 1.0);
    let oracle = Oracle::new(&tree, &family.initial(&tree));
    let Some(Target::Node(slipped)) = tree.find(&[2, 2]) else { panic!("a prefix") };
    assert_eq!(oracle.v[slipped], 0.0);
    // After `2` the slip has probability 0.9 * 0.2.
    assert!((oracle.visit[slipped] - 0.6 * 0.18).abs() < 1e-15);
}

#[test]
fn knobs_out_of_range_are_refused_by_name() {
    let refuse = |family: CarryAdd| family.tree().unwrap_err().to_string();
    assert_eq!(
        refuse(CarryAdd { a: 900, b: 100, ..CarryAdd::default() }),
        "carry_add: b = 100 must be below 1000 - a"
    );
    assert_eq!(
        refuse(CarryAdd { slip: 0.5, ..CarryAdd::default() }),
        "carry_add: slip = 0.5 must be below 1 - skill"
    );
}
