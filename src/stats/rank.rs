//! Rank correlation.

/// Ranks from 0, the mean of their places for values that are equal.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    for end in 1..=order.len() {
        if end == order.len() || values[order[end]] != values[order[start]] {
            let mean = (start + end - 1) as f64 / 2.0;
            order[start..end].iter().for_each(|&i| ranks[i] = mean);
            start = end;
        }
    }
    ranks
}

/// Spearman's rank correlation: Pearson's of the ranks, equal values sharing the mean of their places. `None` where one side has fewer
/// than two different values.
///
/// # Panics
/// If the lengths differ.
///
/// ```
/// use grpo_lambda::stats::spearman;
/// assert_eq!(spearman(&[1.0, 2.0, 9.0], &[0.1, 0.2, 0.3]), Some(1.0));
/// assert_eq!(spearman(&[1.0, 2.0, 3.0], &[2.0, 1.0, 3.0]), Some(0.5));
/// assert_eq!(spearman(&[1.0, 2.0], &[5.0, 5.0]), None);
/// ```
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    assert_eq!(x.len(), y.len(), "pairs");
    let centred = |values: &[f64]| {
        let middle = (values.len() as f64 - 1.0) / 2.0;
        ranks(values).into_iter().map(|r| r - middle).collect::<Vec<f64>>()
    };
    let (x, y) = (centred(x), centred(y));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let size = (dot(&x, &x) * dot(&y, &y)).sqrt();
    (size > 0.0).then(|| dot(&x, &y) / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_equal_values_are_the_mean_of_their_places() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0, 3.0]), [3.0, 0.0, 3.0, 1.0, 3.0]);
        assert!(ranks(&[]).is_empty());
    }

    #[test]
    fn it_is_1_minus_6_sum_of_squares_over_n_cubed_minus_n_without_ties_and_sees_order_alone() {
        let x = [0.3, -1.0, 2.0, 0.7, 5.0];
        let y = [1.0, 2.0, 0.5, 3.0, 4.0];
        let d: f64 = [(1, 1), (0, 2), (3, 0), (2, 3), (4, 4)]
            .iter()
            .map(|&(a, b): &(i32, i32)| f64::from(a - b).powi(2))
            .sum();
        let want = 1.0 - 6.0 * d / (125.0 - 5.0);
        assert!((spearman(&x, &y).unwrap() - want).abs() < 1e-15);
        assert_eq!(spearman(&x.map(f64::exp), &y), spearman(&x, &y));
        assert_eq!(spearman(&x.map(|x| -x), &y).unwrap(), -spearman(&x, &y).unwrap());
    }
}
