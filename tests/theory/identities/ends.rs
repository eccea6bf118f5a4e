//! GRPO-lambda at the ends of lambda and gamma.

use super::{CASES, equal_on, method};
use crate::strategies::{Batch, batch, check};
use crate::tolerance::{IDENTITY, assert_within};
use grpo_lambda::group::Response;

#[test]
fn grpo_lambda_at_lambda_0_style_both_is_not_grpo_its_first_of_six_tokens_weighs_six() {
    // [C1], erratum E5: max(0^l, 0^(t-l)) keeps the first token in every trace.
    let responses = [1.0, 0.0].map(|r| Response::graded(vec![-0.7; 6], r));
    let batch = Batch::alone(responses.to_vec());
    let grpo = batch.evaluate(&method("grpo reduction=token_mean"));
    let both = batch.evaluate(&method("grpo_lambda lambda=0 style=both clamp=none"));
    let weights: Vec<f64> = both.dlogps[0].iter().zip(&grpo.dlogps[0]).map(|(b, g)| b / g).collect();
    assert_eq!(weights, [6.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
}

#[test]
fn lambda_and_gamma_enter_only_through_their_product() {
    for rest in ["", "style=both", "update=weight", "matrix=row_index floor=0.01", "normalise=rows"] {
        let words = |a: f64, b: f64| format!("grpo_lambda lambda={a} gamma={b} {rest}");
        equal_on(batch(), &words(0.9, 0.5), &words(0.5, 0.9));
        equal_on(batch(), &words(0.45, 1.0), &words(0.5, 0.9));
    }
}

#[test]
fn at_lambda_1_without_clip_the_loss_is_minus_the_product_of_ratios_up_to_each_token() {
    check(CASES, batch(), |batch| {
        let loss = batch.evaluate(&method("grpo_lambda lambda=1 clip=none clamp=none"));
        let weight = 1.0 / batch.tokens() as f64;
        let mut want = 0.0;
        let mut size = 0.0;
        for ((r, logps), a) in batch.responses().zip(&batch.logps).zip(&loss.advantages) {
            let mut product = 1.0;
            for t in 0..r.len() {
                product *= (logps[t] - r.old_logps[t]).exp();
                want -= weight * a[t] * product;
                size += (weight * a[t] * product).abs();
            }
        }
        assert_within(&[loss.value], &[want], IDENTITY, size, "value");
    });
}
