use grpo_lambda_mdp::zoo::full_tree;

#[test]
fn the_number_of_responses_is_the_geometric_sum() {
    assert_eq!(full_tree(4, 5).unwrap().leaf_count(), 1 + 3 + 9 + 27 + 81 + 243);
    assert_eq!(full_tree(2, 7).unwrap().leaf_count(), 8);
}

#[test]
fn about_half_of_the_responses_are_rewarded() {
    let tree = full_tree(5, 6).unwrap();
    let share = tree.leaves().map(|l| tree.reward(l)).sum::<f64>() / tree.leaf_count() as f64;
    assert!((share - 0.5).abs() < 0.02, "{share}");
}
