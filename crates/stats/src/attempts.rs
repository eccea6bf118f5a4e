//! Several attempts at the same problem.

/// The probability that at least one of `k` attempts succeeds, estimated without bias from `n` ≥ k independent attempts of
/// which `successes` succeeded: the share of k-subsets of the attempts that hold a success.
///
/// ```text
/// pass@k = 1 − C(n − c, k) / C(n, k) = 1 − ∏ over i = n−c+1 … n of (1 − k/i)
/// ```
///
/// For k = 1 it is c/n. `1 − (1 − c/n)ᵏ`, which looks the same, is biased. `None` for k > n: k attempts cannot be judged by fewer.
/// Source: Chen et al., "Evaluating Large Language Models Trained on Code" (2021), Eq. 1.
///
/// # Panics
/// When there are more successes than attempts or `k` is 0.
///
/// ```
/// # use grpo_lambda_stats::pass_at_k;
/// // Of the 6 pairs of 4 attempts, 1 holds none of the 2 successes.
/// assert!((pass_at_k(4, 2, 2).unwrap() - 5.0 / 6.0).abs() < 1e-15);
/// assert_eq!(pass_at_k(4, 3, 1), Some(0.75));
/// assert_eq!(pass_at_k(4, 3, 5), None);
/// ```
#[track_caller]
pub fn pass_at_k(n: u64, successes: u64, k: u64) -> Option<f64> {
    super::interval::check_count(successes, n);
    assert!(k > 0, "pass@k needs an attempt");
    if k > n {
        return None;
    }
    if n - successes < k {
        return Some(1.0); // every k-subset holds a success
    }
    if k == 1 {
        return Some(successes as f64 / n as f64);
    }
    let none: f64 = (n - successes + 1..=n).map(|i| 1.0 - k as f64 / i as f64).product();
    Some(1.0 - none)
}
