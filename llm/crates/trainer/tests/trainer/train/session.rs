use grpo_lambda_trainer::reward::RewardBreakdown;
use grpo_lambda_trainer::train::session::{fill_up, is_kept};

#[test]
fn groups_that_agree_only_make_up_the_number() {
    assert_eq!(fill_up(vec![1, 2, 3], vec![10, 11], 2), [1, 2]);
    assert_eq!(fill_up(vec![1], vec![10, 11, 12], 3), [1, 10, 11]);
    assert_eq!(fill_up(vec![], vec![10], 1), [10]);
}

#[test]
fn a_band_keeps_groups_by_their_mean_reward_and_none_those_that_differ() {
    let group =
        |totals: [f64; 2]| totals.map(|x| RewardBreakdown { total: Some(x), components: vec![Some(x)] });
    let kept = |band| [[0.0, 0.0], [0.2, 0.6], [1.0, 0.0], [1.0, 1.0]].map(|g| is_kept(band, &group(g)));
    assert_eq!(kept(None), [false, true, true, false]);
    assert_eq!(kept(Some([0.3, 0.45])), [false, true, false, false]);
    assert_eq!(kept(Some([0.5, 1.0])), [false, false, true, true]);
}
