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
