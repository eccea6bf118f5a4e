use grpo_lambda::soft_clamp::{SoftClamp, Squash, Variant};
use grpo_lambda::trace::Recent;

#[test]
fn tanh_keeps_its_digits_at_unlikely_tokens() {
    let clamp = SoftClamp { variant: Variant::Elementwise, squash: Squash::Tanh, gradient: true };
    // The trace of one token is 1.
    let squash = |logp: f64| {
        let one = clamp.weights(&Recent { q: 0.9 }, &[logp]);
        (one.weights[0], one.slopes[0])
    };
    for logp in [-0.1f64, -1.0, -3.0] {
        let t = (logp - 1.0).tanh();
        let (v, slope) = squash(logp);
        assert!((v - (1.0 + t)).abs() < 1e-15 && (slope - (1.0 - t * t)).abs() < 1e-15, "{logp}");
    }
    // 1 + tanh(x) = 2 exp(2x) / (1 + exp(2x)), where 1 + tanh(-20) rounds to 0.
    let (v, slope) = squash(-19.0);
    let exact = 2.0 * (-40.0f64).exp();
    assert!((v / exact - 1.0).abs() < 1e-15 && (slope / v - 2.0).abs() < 1e-15, "{v} {slope}");
}
