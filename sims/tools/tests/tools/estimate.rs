use grpo_lambda_tools::estimate::{all_finite, finite};

#[test]
fn negative_zero_is_zero_and_infinities_are_refused() {
    assert!(finite("loss", -0.0).is_ok_and(f64::is_sign_positive));
    let error = all_finite("dlogps", vec![vec![1.0], vec![0.0, f64::INFINITY]]).unwrap_err();
    assert!(error.starts_with("dlogps[1][1] would be inf;"), "{error}");
}
