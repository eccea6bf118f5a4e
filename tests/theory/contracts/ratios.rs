//! Ratios by hand: what is clipped is counted on its side, and gets no gradient.

use grpo_lambda::ratio::{
    ClippedMean, ClippedTrace, Gamma, GammaWeight, LogProbs, PolicyRatio, StraightThrough,
};
use grpo_lambda::trace::{AsPrinted, Recent, Style, Trace};

fn read<'a>(logps: &'a [f64], old: &'a [f64], advantages: &'a [f64]) -> LogProbs<'a> {
    LogProbs { logps, old, frozen: logps, advantages, eligible: None }
}

#[test]
fn the_clipped_mean_takes_each_token_as_far_as_its_advantage_may_push_it() {
    let ratio = ClippedMean { low: 0.5, high: 0.25 };
    let (x, a) = ([0.125, 0.75, -0.75, -0.125, 0.75, 0.25, -0.5], [1.0, 1.0, -1.0, -1.0, 0.0, 2.0, -2.0]);
    let old = [0.0; 7];
    let logps = read(&x, &old, &a);
    let input = ratio.forward(&logps);
    // 0.125 + 0.25 - 0.5 - 0.125 + 0 + 0.25 - 0.5: a token on its bound is inside.
    assert_eq!(input.z, [-0.5 / 7.0; 7]);
    assert_eq!(input.clipped, (1, 1));
    let slopes = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    assert_eq!(ratio.backward(&logps, input, slopes, &[]), [4.0, 0.0, 0.0, 4.0, 0.0, 4.0, 4.0]);
}

#[test]
fn the_clipped_trace_clips_before_it_accumulates() {
    let ratio = ClippedTrace { trace: Box::new(Recent { q: 0.5 }), low: 0.5, high: 0.5 };
    let old = [-2.0, -3.0, -4.0, -5.0];
    let logps = [-1.0, -3.75, -3.875, -4.0];
    let read = read(&logps, &old, &[1.0; 4]);
    let input = ratio.forward(&read);
    let clipped = [1.5f64.ln(), 0.5f64.ln(), 0.125, 1.5f64.ln()];
    assert_eq!(input.z, Recent { q: 0.5 }.apply(&clipped));
    assert_eq!(input.clipped, (1, 2));
    // The adjoint of 1, 2, 4, 8 at token 2 is 4 + 8/2; the others are outside.
    assert_eq!(ratio.backward(&read, input, vec![1.0, 2.0, 4.0, 8.0], &[]), [0.0, 0.0, 8.0, 0.0]);
    let (low, high) = (0.5f64.ln(), 1.5f64.ln());
    let on_the_bounds = [low, high];
    let read = self::read(&on_the_bounds, &[0.0, 0.0], &[1.0, 1.0]);
    let input = ratio.forward(&read);
    assert_eq!(input.clipped, (0, 0));
    assert_eq!(ratio.backward(&read, input, vec![1.0, 2.0], &[]), [2.0, 2.0]);
}

#[test]
fn the_gamma_weight_is_a_density_of_the_whole_ratio_by_the_sign_of_the_advantage() {
    let ratio =
        GammaWeight { positive: Gamma { k: 2.0, lambda: 3.0 }, negative: Gamma { k: 1.5, lambda: 0.5 } };
    let read = read(&[-0.5, -1.0, -1.5], &[-1.0, -0.75, -1.5], &[1.0, -1.0, 0.0]);
    let w = 0.25f64.exp();
    let up = 3f64.exp() * w.powi(2) * (-3.0 * w).exp();
    let down = 0.5f64.exp() * w.powf(1.5) * (-0.5 * w).exp();
    let factors = ratio.forward(&read).factors.expect("weights in front");
    for (found, expected) in factors.iter().zip([up, down, up]) {
        assert!((found - expected).abs() < 1e-14, "{found}, not {expected}");
    }
    assert_eq!(ratio.backward(&read, ratio.forward(&read), vec![1.0, 2.0, 3.0], &[]), [1.0, 2.0, 3.0]);
}

#[test]
fn a_ratio_is_as_long_as_its_trace() {
    let trace = |max_length| Box::new(AsPrinted { q: 0.5, floor: 0.0, style: Style::Recent, max_length });
    let clipped = |max_length| ClippedTrace { trace: trace(max_length), low: 0.2, high: 0.2 }.max_len();
    assert_eq!((clipped(None), clipped(Some(7))), (None, Some(7)));
    let straight = |max_length| StraightThrough(trace(max_length)).max_len();
    assert_eq!((straight(None), straight(Some(7))), (None, Some(7)));
}
