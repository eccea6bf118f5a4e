use super::Trace;

/// No trace: the identity. The ratio of PPO and GRPO, `ratio_t = exp(x_t)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token;

impl Trace for Token {
    fn equation(&self) -> String {
        "E[t,k] = 1 for k = t, else 0 (no trace)".to_owned()
    }
    fn weight(&self, t: usize, k: usize, len: usize) -> f64 {
        assert!(t < len && k < len);
        f64::from(t == k)
    }
    fn apply_into(&self, x: &[f64], z: &mut [f64]) {
        z.copy_from_slice(x);
    }
    fn adjoint_into(&self, y: &[f64], g: &mut [f64]) {
        g.copy_from_slice(y);
    }
}
