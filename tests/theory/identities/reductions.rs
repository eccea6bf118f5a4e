//! Reductions.

use super::{CASES, assert_same, differ_on, equal, equal_on, method, times};
use crate::strategies::{batch, check};
use crate::tolerance::{IDENTITY, assert_close};
use grpo_lambda::group::Response;
use proptest::prelude::*;

#[test]
fn token_mean_is_response_mean_when_lengths_are_equal() {
    let equal_lengths = batch().prop_map(|b| {
        let len = b.responses().map(Response::len).min().expect("a response");
        let mut b = b.with(|_, _, r| {
            r.tokens.truncate(len);
            r.old_logps.truncate(len);
            r.ref_logps.as_mut().expect("generated").truncate(len);
        });
        b.logps.iter_mut().for_each(|l| l.truncate(len));
        b
    });
    equal_on(equal_lengths, "grpo reduction=token_mean beta=0.1", "grpo reduction=response_mean beta=0.1");
    assert!(differ_on(batch(), "grpo reduction=token_mean", "grpo") > CASES / 2, "not when they vary");
}

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
fn response_sum_is_a_constant_reduction_by_one() {
    equal("rloo reduction=response_sum", "rloo reduction=constant max_length=1");
}

#[test]
fn a_constant_reduction_scales_with_one_over_its_length() {
    let (short, long) = (method("dr_grpo max_length=50 beta=0.1"), method("dr_grpo max_length=200 beta=0.1"));
    check(CASES, batch(), |batch| {
        let (a, b) = (batch.evaluate(&short), batch.evaluate(&long));
        assert_close(&a.dlogps.concat(), &times(4.0, &b.dlogps.concat()), IDENTITY, "gradient");
    });
}

#[test]
fn masking_truncated_responses_changes_nothing_when_none_is_truncated() {
    let finished = batch().prop_map(|b| b.with(|_, _, r| r.truncated = false));
    equal_on(finished, "grpo mask_truncated=true beta=0.1", "grpo beta=0.1");
}
