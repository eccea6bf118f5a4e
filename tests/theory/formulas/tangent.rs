use grpo_lambda::surrogate::{LOG_RATIO_LIMIT, ValueAndSlope, exp_tangent};

#[test]
fn the_tangent_continues_exp_smoothly_and_stays_finite() {
    let (a, b) = (exp_tangent(LOG_RATIO_LIMIT - 1e-9), exp_tangent(LOG_RATIO_LIMIT + 1e-9));
    assert!((b.value - a.value - 2e-9 * a.slope).abs() / a.value < 1e-15);
    assert!(exp_tangent(1e7).value.is_finite());
    assert_eq!(exp_tangent(-1e7), ValueAndSlope::default());
}
