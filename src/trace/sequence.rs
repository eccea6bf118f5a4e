use super::Trace;

/// The uniform, non-causal trace `E[t,k] = 1/T`: every token sees the mean log-ratio of the whole response.
///
/// ```text
/// z_t = (1/T) sum_k x_k          exp(z_t) = the sequence-level ratio of GSPO, the same at every t
/// ```
/// Rows and columns all sum to 1, so on-policy its gradient is GRPO's; only off-policy do the two differ.
///
/// Source: GSPO as implemented in TRL (`importance_sampling_level="sequence"`) and verl.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sequence;

/// The trace of ones, not causal: every token sees the sum of the log-ratios of the whole response.
///
/// ```text
/// z_t = sum_k x_k          exp(z_t) = the importance weight of the response, the same at every t
/// ```
/// Under `1/(B T_i)` the clipped loss of a response counts once and each of its tokens moves it fully. Source: TRL `RLOOTrainer`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product;

impl Trace for Product {
    fn equation(&self) -> String {
        "E[t,k] = 1 for every t and k".to_owned()
    }
    fn weight(&self, t: usize, k: usize, len: usize) -> f64 {
        assert!(t < len && k < len);
        1.0
    }
    fn apply_into(&self, x: &[f64], z: &mut [f64]) {
        assert_eq!(x.len(), z.len());
        z.fill(x.iter().sum());
    }
    fn adjoint_into(&self, y: &[f64], g: &mut [f64]) {
        self.apply_into(y, g); // symmetric
    }
}

impl Trace for Sequence {
    fn equation(&self) -> String {
        "E[t,k] = 1/T_i for every t and k".to_owned()
    }
    fn weight(&self, t: usize, k: usize, len: usize) -> f64 {
        assert!(t < len && k < len);
        1.0 / len as f64
    }
    fn apply_into(&self, x: &[f64], z: &mut [f64]) {
        assert_eq!(x.len(), z.len());
        z.fill(x.iter().sum::<f64>() / x.len() as f64);
    }
    fn adjoint_into(&self, y: &[f64], g: &mut [f64]) {
        self.apply_into(y, g); // symmetric
    }
    fn column_sums(&self, len: usize) -> Vec<f64> {
        vec![1.0; len]
    }
    fn row_sums(&self, len: usize) -> Vec<f64> {
        vec![1.0; len]
    }
}
