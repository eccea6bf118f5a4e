use grpo_lambda_trainer::train::session::fill_up;

#[test]
fn groups_that_agree_only_make_up_the_number() {
    assert_eq!(fill_up(vec![1, 2, 3], vec![10, 11], 2), [1, 2]);
    assert_eq!(fill_up(vec![1], vec![10, 11, 12], 3), [1, 10, 11]);
    assert_eq!(fill_up(vec![], vec![10], 1), [10]);
}
