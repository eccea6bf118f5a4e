//! Ranks and the correlation of ranks.

use super::{check, mean};

/// The rank of each value, 1 for the smallest; equal values share the mean of their ranks.
///
/// # Panics
/// When a value is not finite.
///
/// ```
/// # use grpo_lambda_stats::ranks;
/// assert_eq!(ranks(&[0.3, 0.1, 0.3, 7.0]), [2.5, 1.0, 2.5, 4.0]);
/// ```
#[track_caller]
pub fn ranks(values: &[f64]) -> Vec<f64> {
    check(values);
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut below = 0;
    for block in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let shared = below as f64 + (block.len() as f64 + 1.0) / 2.0;
        block.iter().for_each(|&i| ranks[i] = shared);
        below += block.len();
    }
    ranks
}

/// Spearman's rank correlation, in `[-1, 1]`: the correlation of the [`ranks`]. `None` for fewer than two pairs, or when
/// all values of a side are equal.
///
/// # Panics
/// When the lengths differ or a value is not finite.
///
/// ```
/// # use grpo_lambda_stats::spearman;
/// assert_eq!(spearman(&[1.0, 2.0, 30.0], &[0.1, 0.2, 0.21]), Some(1.0));
/// assert_eq!(spearman(&[1.0, 2.0], &[5.0, 5.0]), None);
/// ```
#[track_caller]
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    assert_eq!(x.len(), y.len(), "a correlation needs pairs");
    let (x, y) = (ranks(x), ranks(y));
    let (mx, my) = (mean(&x)?, mean(&y)?);
    let sum = |a: &[f64], ma: f64, b: &[f64], mb: f64| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - ma) * (b - mb)).sum()
    };
    let (xx, yy) = (sum(&x, mx, &x, mx), sum(&y, my, &y, my));
    (xx > 0.0 && yy > 0.0).then(|| sum(&x, mx, &y, my) / (xx * yy).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
