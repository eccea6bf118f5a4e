//! Divergences of distributions over the actions of one state, their gradients, and the moments of the estimators' gradients.

use grpo_lambda::kl::Kl;

use crate::experiments::common::vectors::difference;

pub(super) const ESTIMATORS: [(&str, Kl); 4] =
    [("k1", Kl::K1), ("k2", Kl::K2), ("k3", Kl::K3), ("ratio_k3", Kl::RatioK3)];
/// The first estimator: the mean of its gradient is 0 and has no direction.
pub(super) const K1: &str = ESTIMATORS[0].0;

/// The gradient of one estimator with respect to the logits of one state: mean and trace of the covariance, actions drawn
/// from `old`.
pub(super) fn moments(kl: Kl, pi: &[f64], old: &[f64], reference: &[f64]) -> (Vec<f64>, f64) {
    let mut mean = vec![0.0; pi.len()];
    let mut second = 0.0;
    for a in 0..pi.len() {
        let slope = kl.at(pi[a].ln(), old[a].ln(), reference[a].ln()).slope;
        for (b, m) in mean.iter_mut().enumerate() {
            let step = slope * (f64::from(u8::from(a == b)) - pi[b]);
            *m += old[a] * step;
            second += old[a] * step * step;
        }
    }
    let variance = second - mean.iter().map(|m| m * m).sum::<f64>();
    (mean, variance)
}

/// The mean of an estimator, actions drawn from `pi`.
pub(super) fn value(kl: Kl, pi: &[f64], reference: &[f64]) -> f64 {
    (0..pi.len()).map(|a| pi[a] * kl.at(pi[a].ln(), pi[a].ln(), reference[a].ln()).value).sum()
}

/// `KL(p||q)`.
pub(super) fn divergence(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum()
}

/// `∇KL(π||ref)` with respect to the logits of π.
pub(super) fn reverse(pi: &[f64], reference: &[f64]) -> Vec<f64> {
    let kl = divergence(pi, reference);
    pi.iter().zip(reference).map(|(p, r)| p * ((p / r).ln() - kl)).collect()
}

/// `∇KL(ref||π)` with respect to the logits of π.
pub(super) fn forward(pi: &[f64], reference: &[f64]) -> Vec<f64> {
    difference(pi, reference)
}
