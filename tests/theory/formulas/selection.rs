use grpo_lambda::assignment::{BiLevel, Threshold};

/// The quantile of `torch.quantile`, by the weights that it decides: `n / (tau + 1e-8)` below it, `1 + (n - tau) / (1 - tau + 1e-8)` from it on.
#[test]
fn quantiles_are_those_of_the_sorted_values() {
    let values = [0.25, 0.0, 1.0, 0.5, 0.75];
    for (level, tau) in
        [(0.0, 0.0), (1.0, 1.0), (0.5, 0.5), (0.8, 0.8), (0.125, 0.125), (0.9, 0.9), (0.6, 0.6)]
    {
        let by_quantile = bi_level(level).weights(&values);
        let by_value = values
            .map(|n: f64| if n < tau { n / (tau + 1e-8) } else { 1.0 + (n - tau) / (1.0 - tau + 1e-8) });
        let near = by_quantile.iter().zip(by_value).all(|(a, b)| (a - b).abs() < 1e-14);
        assert!(near, "{level}: {by_quantile:?} {by_value:?}");
    }
    // Unequal steps: 0.8 of the way over five values is a fifth of the last step.
    let tau = 0.3 + 0.2 * 0.7;
    let weights = bi_level(0.8).weights(&[0.3, 0.0, 1.0, 0.1, 0.2]);
    assert!((weights[0] - 0.3 / (tau + 1e-8)).abs() < 1e-14, "{weights:?}");
    assert_eq!(bi_level(0.9).weights(&[2.0]), [1.0]);
    assert_eq!(bi_level(0.5).weights(&[]), [0.0; 0]);
}

fn bi_level(threshold: f64) -> BiLevel {
    BiLevel { threshold, on: Threshold::Quantile, boost: 1.0, floor: 0.0, log1p: false, mass: false }
}
