use grpo_lambda::kl::Kl;
use grpo_lambda::surrogate::{Divergence, Region, Surrogate, TokenLogps};

/// A surrogate of `log pi` has one slope, whether it is read in the log-ratio or in `log pi`.
#[test]
fn reinforce_and_its_quadratic_pull_by_hand_in_the_log_ratio() {
    for (z, a) in [(0.5, 2.0), (-1.5, -3.0), (2.0, 0.25)] {
        let score = Surrogate::Score.at(z, a).loss;
        assert_eq!((score.value, score.slope), (-a * z, -a));
        let pulled = Surrogate::Quadratic { beta: 0.5 }.at(z, a).loss;
        assert!((pulled.value - (0.25 * z * z - a * z)).abs() < 1e-15, "{pulled:?}");
        assert!((pulled.slope - (0.5 * z - a)).abs() < 1e-15, "{pulled:?}");
        let old = -0.75;
        let at = TokenLogps { logp: old + z, old, frozen: old + z };
        let of_logps = Surrogate::Quadratic { beta: 0.5 }.of_logps(&at, a).expect("reads log pi").loss;
        assert!((of_logps.slope - pulled.slope).abs() < 1e-15);
        assert!((of_logps.value - pulled.value + a * old).abs() < 1e-15);
    }
}

/// For an estimator with the value of one and the gradient of another, the value away from `frozen` is that of the first at `frozen`, and from there on that
/// of `k2`: what automatic differentiation of `held(frozen) + k2 - held(k2)` computes.
#[test]
fn a_kl_with_the_gradient_of_k2_leaves_its_held_value_along_k2() {
    let (logp, frozen, old, reference) = (-0.5f64, -1.0f64, -1.25, -2.0);
    let (d, held) = (logp - reference, frozen - reference);
    let along = 0.5 * d * d - 0.5 * held * held;
    let k1 = Kl::K1K2.at_around(logp, frozen, old, reference);
    assert!((k1.value - (held + along)).abs() < 1e-15 && k1.slope == d, "{k1:?}");
    let k3 = Kl::K3K2.at_around(logp, frozen, old, reference);
    assert!((k3.value - ((-held).exp() - 1.0 + held + along)).abs() < 1e-15 && k3.slope == d, "{k3:?}");
}

/// Beyond the limit of the log-ratio `exp` goes on as its tangent, so the estimate stays finite: `e^L (1 + x - L) - 1 - x` at `x = -d > L`.
#[test]
fn k3_far_below_the_reference_follows_the_tangent() {
    let limit = grpo_lambda::surrogate::LOG_RATIO_LIMIT;
    let x = limit + 2.0;
    let k3 = Kl::K3.at(-x, -x, 0.0);
    let expected = limit.exp() * 3.0 - 1.0 - x;
    assert!((k3.value / expected - 1.0).abs() < 1e-14, "{k3:?}, not {expected}");
    assert!((k3.slope / (1.0 - limit.exp()) - 1.0).abs() < 1e-14, "{k3:?}");
}

/// At a kink the slope is that of the unclipped branch, and an advantage of 0 has no bound.
#[test]
fn a_ratio_on_its_bound_is_free_and_so_is_any_without_an_advantage() {
    let (low, high) = (0.5, 0.5);
    let clip = Surrogate::Clip { low, high };
    let two_sided = Surrogate::TwoSided { low, high, delta: 4.0 };
    let weight = Surrogate::Detached { low: 0.5, high: 1.5 };
    let region =
        Surrogate::TrustRegion { divergence: Divergence::TotalVariation, low: 0.1, high: 0.1, cap: 1.5 };
    for (surrogate, rho, a) in [
        (clip, 1.5, 1.0),
        (clip, 0.5, -1.0),
        (two_sided, 1.5, 1.0),
        (two_sided, 0.5, -1.0),
        (two_sided, 4.0, -1.0),
        (Surrogate::Printed { high }, 1.5, 1.0),
        (weight, 0.5, 1.0),
        (weight, 1.5, 1.0),
        (region, 1.5, 1.0),
        (clip, 0.1, 0.0),
        (clip, 9.0, 0.0),
        (two_sided, 0.1, 0.0),
        (two_sided, 9.0, 0.0),
    ] {
        assert_eq!(surrogate.region(rho, a), Region::Free, "{surrogate:?} at {rho}, {a}");
    }
    for (surrogate, rho, a, expected) in [
        (two_sided, 4.25, -1.0, Region::High),
        (two_sided, 0.25, -1.0, Region::Low),
        (two_sided, 2.0, 1.0, Region::High),
        (clip, 2.0, -1.0, Region::Free),
        (clip, 0.25, 1.0, Region::Free),
        (Surrogate::Unclipped, 100.0, 1.0, Region::Free),
    ] {
        assert_eq!(surrogate.region(rho, a), expected, "{surrogate:?} at {rho}, {a}");
    }
    // A token without an advantage that rose far is not one that fell.
    let at = TokenLogps { logp: 0.75f64.ln(), old: 0.5f64.ln(), frozen: 0.75f64.ln() };
    assert_eq!(region.of_logps(&at, 0.0).expect("reads log pi").region, Region::Free);
}
