//! KL estimators and their term.

use super::{CASES, method, times};
use crate::strategies::{Batch, batch, check};
use crate::tolerance::{IDENTITY, assert_within, size};
use grpo_lambda::kl::Kl;

#[test]
fn k1_has_slope_1_and_k2_has_slope_d() {
    check(CASES, (-5.0..0.0f64, -5.0..0.0f64, -5.0..0.0f64), |(logp, old, reference)| {
        let d = logp - reference;
        let (k1, k2) = (Kl::K1.at(logp, old, reference), Kl::K2.at(logp, old, reference));
        assert_eq!((k1.value, k1.slope), (d, 1.0));
        assert_eq!((k2.value, k2.slope), (d * d / 2.0, d));
    });
}

#[test]
fn k3_is_never_negative_and_zero_with_its_slope_at_the_reference_only() {
    check(CASES, (-5.0..0.0f64, -5.0..0.0f64), |(logp, reference)| {
        let at_reference = Kl::K3.at(reference, logp, reference);
        assert_eq!((at_reference.value, at_reference.slope), (0.0, 0.0));
        let k3 = Kl::K3.at(logp, logp, reference);
        let d = logp - reference;
        assert!(k3.value > 0.0 && (k3.slope > 0.0) == (d > 0.0));
        assert_within(&[k3.value, k3.slope], &[(-d).exp() - 1.0 + d, 1.0 - (-d).exp()], IDENTITY, 1e3, "k3");
    });
}

#[test]
fn close_to_the_reference_k3_is_k2() {
    for d in [1e-3, -1e-3, 1e-6, -1e-6] {
        let (k2, k3) = (Kl::K2.at(-1.0 + d, -1.0, -1.0), Kl::K3.at(-1.0 + d, -1.0, -1.0));
        assert!((k3.value / k2.value - 1.0).abs() < 2.0 * d.abs(), "{d}");
        assert!((k3.slope / k2.slope - 1.0).abs() < 2.0 * d.abs(), "{d}");
    }
}

#[test]
fn on_policy_ratio_k3_has_the_value_of_k3_and_the_slope_of_k2() {
    // d/dlogp [rho k3] at rho = 1 is k3 + (1 - e^-d) = d: hence the reverse KL in expectation.
    check(CASES, (-5.0..0.0f64, -5.0..0.0f64), |(logp, reference)| {
        let ratio = Kl::RatioK3.at(logp, logp, reference);
        assert_eq!(ratio.value, Kl::K3.at(logp, logp, reference).value);
        assert_within(&[ratio.slope], &[Kl::K2.at(logp, logp, reference).slope], IDENTITY, 1e3, "slope");
    });
}

/// The KL part of the gradient: with a coefficient minus without.
fn kl_gradient(words: &str, beta: f64, batch: &Batch) -> Vec<f64> {
    let (with, without) = (method(&format!("{words} beta={beta}")), method(words));
    let (with, without) = (batch.evaluate(&with).dlogps.concat(), batch.evaluate(&without).dlogps.concat());
    with.iter().zip(&without).map(|(a, b)| a - b).collect()
}

#[test]
fn the_kl_term_is_linear_in_beta() {
    for kl in ["k1", "k2", "k3", "ratio_k3"] {
        check(CASES / 2, batch(), |batch| {
            let words = format!("grpo kl={kl}");
            let (one, three) = (kl_gradient(&words, 0.1, &batch), kl_gradient(&words, 0.3, &batch));
            assert_within(&three, &times(3.0, &one), IDENTITY, 10.0, &words);
            let value = |beta: f64| batch.evaluate(&method(&format!("{words} beta={beta}"))).metrics.kl_loss;
            assert_within(&[value(0.3)], &[3.0 * value(0.1)], IDENTITY, 10.0, &words);
        });
    }
}

#[test]
fn the_kl_gradient_is_untouched_by_the_trace() {
    // Hence the effective beta falls with the trace's mass (0.04 / 64 at T = 256, q = 0.99).
    check(CASES / 2, batch(), |batch| {
        let want = kl_gradient("grpo reduction=token_mean", 0.5, &batch);
        assert!(size(&want) > 0.0);
        for words in [
            "lambda=0.9",
            "lambda=0.9 style=both",
            "lambda=0.9 update=weight",
            "normalise=mean",
            "normalise=rows",
        ] {
            let words = format!("grpo_lambda {words}");
            let scale = size(&batch.evaluate(&method(&words)).dlogps.concat()) + size(&want);
            assert_within(&kl_gradient(&words, 0.5, &batch), &want, IDENTITY, scale, &words);
        }
    });
}

#[test]
fn without_a_coefficient_the_kl_estimator_and_the_reference_do_not_matter() {
    let m = method("grpo");
    check(CASES, batch(), |batch| {
        let bare = batch.clone().with(|_, _, r| r.ref_logps = None);
        assert_eq!(bare.evaluate(&m), batch.evaluate(&m));
    });
}
