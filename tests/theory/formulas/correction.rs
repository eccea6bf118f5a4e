use grpo_lambda::group::{ExtraInputs, Response};
use grpo_lambda::objective::{Correction, Unit};

#[test]
fn every_mode_by_hand() {
    // Ratios 4 and 1/2: their product is 2, their geometric mean sqrt 2.
    let mut response = Response::graded(vec![-1.0, -1.0], 1.0);
    let sampler = vec![-1.0 - 4f64.ln(), -1.0 + 2f64.ln()];
    response.extra_inputs = ExtraInputs { sampler_logps: Some(sampler), ..ExtraInputs::default() };
    let weights =
        |unit, masked, low, high| Correction { unit, masked, low, high, leaves: false }.weights(&response);
    let close = |found: Vec<f64>, want: [f64; 2]| {
        assert!(found.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {want:?}");
    };
    close(weights(Unit::Token, false, 0.0, 3.0), [3.0, 0.5]);
    close(weights(Unit::Token, false, 0.8, 3.0), [3.0, 0.8]);
    close(weights(Unit::Token, true, 0.0, 3.0), [0.0, 0.5]);
    close(weights(Unit::Sequence, false, 0.0, 1.5), [1.5, 1.5]);
    close(weights(Unit::Sequence, true, 0.0, 1.5), [0.0, 0.0]);
    close(weights(Unit::Sequence, true, 0.0, 2.5), [2.0, 2.0]);
    close(weights(Unit::TokenInSequence, true, 1.4, 1.5), [4.0, 0.5]);
    close(weights(Unit::TokenInSequence, true, 1.5, 1.6), [0.0, 0.0]);
}
