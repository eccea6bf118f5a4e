use grpo_lambda_stats::{ranks, spearman};

#[test]
fn the_correlation_without_ties_is_that_of_the_squared_differences() {
    // 1 - 6 sum d^2 / (n (n^2 - 1)), ranks 1 2 3 4 5 against 2 1 4 3 5: d^2 = 1 1 1 1 0
    let x = [0.1, 0.2, 0.4, 0.8, 1.6];
    let y = [-3.0, -4.0, 8.0, 2.0, 9.0];
    assert!((spearman(&x, &y).unwrap() - (1.0 - 24.0 / 120.0)).abs() < 1e-15);
    let reversed: Vec<f64> = y.iter().map(|v| -v.powi(3)).collect();
    assert!((spearman(&x, &reversed).unwrap() + 0.8).abs() < 1e-15);
}

#[test]
fn ties_share_their_ranks_and_too_little_gives_nothing() {
    assert_eq!(ranks(&[2.0, 2.0, 2.0]), [2.0; 3]);
    assert!(ranks(&[]).is_empty());
    assert_eq!((spearman(&[], &[]), spearman(&[1.0], &[1.0])), (None, None));
    // Ranks 1.5 1.5 3 against 1 2 3: 1.5 / sqrt(1.5 * 2)
    assert!((spearman(&[0.0, 0.0, 1.0], &[1.0, 2.0, 3.0]).unwrap() - 0.75f64.sqrt()).abs() < 1e-15);
}
