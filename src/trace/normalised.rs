use super::Trace;

/// A trace with every row divided by its sum, so that `z_t` is a weighted *mean* of log-ratios.
///
/// ```text
/// E'[t,k] = E[t,k] / sum_j E[t,j]
/// ```
/// If every token ratio lies in `[1-eps, 1+eps]` then so does every trace ratio (a convex combination of logarithms),
/// and the column sums add up to `T`: no hidden learning-rate factor. The last row of a normalised [`Recent`](super::Recent)
/// at `q = 1` is GSPO's [`Sequence`](super::Sequence).
///
/// Not in the GRPO-lambda paper; ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowNormalised<T>(
    /// The trace to normalise. Its rows must have positive sums.
    pub T,
);

impl<T: Trace> Trace for RowNormalised<T> {
    fn equation(&self) -> String {
        format!("{}, each row divided by its sum", self.0.equation())
    }
    fn weight(&self, t: usize, k: usize, len: usize) -> f64 {
        self.0.weight(t, k, len) / self.0.row_sums(len)[t]
    }
    fn max_len(&self) -> Option<usize> {
        self.0.max_len()
    }
    fn apply_into(&self, x: &[f64], z: &mut [f64]) {
        self.0.apply_into(x, z);
        for (z, sum) in z.iter_mut().zip(self.0.row_sums(x.len())) {
            *z /= sum;
        }
    }
    fn adjoint_into(&self, y: &[f64], g: &mut [f64]) {
        let scaled: Vec<f64> = y.iter().zip(self.0.row_sums(y.len())).map(|(y, sum)| y / sum).collect();
        self.0.adjoint_into(&scaled, g);
    }
    fn row_sums(&self, len: usize) -> Vec<f64> {
        vec![1.0; len]
    }
}
