//! TD errors and generalised advantage estimation.

use crate::trace::scan;

/// TD errors `delta_t = r_t + gamma V(s_{t+1}) - V(s_t)`, with `V = 0` after the last token.
///
/// `rewards` and `values` have one entry per token.
///
/// # Panics
/// If lengths differ.
pub fn td_errors(rewards: &[f64], values: &[f64], gamma: f64) -> Vec<f64> {
    assert_eq!(rewards.len(), values.len());
    let next = |t: usize| values.get(t + 1).copied().unwrap_or(0.0);
    (0..rewards.len()).map(|t| rewards[t] + gamma * next(t) - values[t]).collect()
}

/// Generalised advantage estimation: `A_t = delta_t + gamma lambda A_{t+1}`.
///
/// With the exact critic it is unbiased at every `lambda`; with a wrong one its bias vanishes at `lambda = 1`.
///
/// Source: Schulman et al. 2016; the paper's text prints only its first two terms (erratum E19).
///
/// ```
/// use grpo_lambda::advantage::gae;
/// // constant critic, gamma = 1: A_t = lambda^(T-1-t) (r - V0)
/// assert_eq!(gae(&[0.0, 0.0, 1.0], &[0.5; 3], 1.0, 0.5), [0.125, 0.25, 0.5]);
/// ```
///
/// # Panics
/// If lengths differ.
pub fn gae(rewards: &[f64], values: &[f64], gamma: f64, lambda: f64) -> Vec<f64> {
    let mut advantages = td_errors(rewards, values, gamma);
    scan::decayed_suffix(gamma * lambda, &mut advantages);
    advantages
}
