//! The multiplier of the trace: a terminal one, and TD errors.

use super::{CASES, method};
use crate::strategies::{check, on_policy};
use crate::tolerance::{IDENTITY, assert_close};
use grpo_lambda::advantage::td_errors;
use proptest::prelude::*;

#[test]
fn on_policy_a_terminal_delta_gives_token_k_the_weight_q_to_the_tokens_left() {
    // [C6], erratum E6: weights rise towards the end, the opposite of the column sums.
    for q in [0.0, 0.5, 0.9, 0.98, 1.0] {
        let m = method(&format!("grpo_lambda delta=terminal lambda={q} clamp=none"));
        let grpo = method("grpo reduction=token_mean");
        check(CASES / 2, on_policy(), |batch| {
            for (g, flat) in batch.evaluate(&m).dlogps.iter().zip(&batch.evaluate(&grpo).dlogps) {
                let len = g.len();
                let want: Vec<f64> = (0..len).map(|k| flat[k] * f64::powi(q, (len - 1 - k) as i32)).collect();
                assert_close(g, &want, IDENTITY, "gradient");
            }
        });
    }
}

#[test]
fn undiscounted_td_errors_telescope_to_the_return_minus_the_first_value() {
    check(CASES, prop::collection::vec((-1.0..1.0f64, -1.0..1.0f64), 1..30), |tokens| {
        let (rewards, values): (Vec<f64>, Vec<f64>) = tokens.into_iter().unzip();
        let sum: f64 = td_errors(&rewards, &values, 1.0).iter().sum();
        assert!((sum - (rewards.iter().sum::<f64>() - values[0])).abs() < 30.0 * IDENTITY);
    });
}
