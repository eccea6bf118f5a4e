//! Reductions.

use super::{CASES, assert_same, method, times};
use crate::strategies::{batch, check};
use crate::tolerance::{IDENTITY, assert_close};

#[test]
fn a_constant_reduction_by_the_mean_length_is_the_token_mean() {
    check(CASES, batch(), |batch| {
        let mean = batch.tokens() as f64 / batch.logps.len() as f64;
        let constant = method(&format!("grpo reduction=constant max_length={mean} beta=0.1"));
        let token_mean = method("grpo reduction=token_mean beta=0.1");
        assert_same(&batch.evaluate(&constant), &batch.evaluate(&token_mean), "mean length");
    });
}

#[test]
fn a_constant_reduction_scales_with_one_over_its_length() {
    let (short, long) = (method("dr_grpo max_length=50 beta=0.1"), method("dr_grpo max_length=200 beta=0.1"));
    check(CASES, batch(), |batch| {
        let (a, b) = (batch.evaluate(&short), batch.evaluate(&long));
        assert_close(&a.dlogps.concat(), &times(4.0, &b.dlogps.concat()), IDENTITY, "gradient");
    });
}
