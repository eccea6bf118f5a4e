//! The multiplier of the trace: constant or terminal, TD errors, GAE, Theorem 1.

use super::{CASES, method, times};
use crate::strategies::{check, on_policy};
use crate::tolerance::{IDENTITY, assert_close, assert_within};
use grpo_lambda::advantage::{gae, td_errors};
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
fn on_policy_a_terminal_delta_is_gae_with_the_group_mean_as_a_constant_critic() {
    for lambda in [0.0, 0.7, 0.95, 1.0] {
        let m = method(&format!("grpo_lambda delta=terminal lambda={lambda} clamp=none scale=none"));
        check(CASES / 2, on_policy(), |batch| {
            let loss = batch.evaluate(&m);
            let mut i = 0;
            for group in &batch.groups {
                let known: Vec<f64> = group.responses.iter().filter_map(|r| r.reward).collect();
                let v0 = known.iter().sum::<f64>() / known.len() as f64;
                for r in &group.responses {
                    if let Some(reward) = r.reward {
                        let mut rewards = vec![0.0; r.len()];
                        rewards[r.len() - 1] = reward;
                        let advantages = gae(&rewards, &vec![v0; r.len()], 1.0, lambda);
                        let want = times(-1.0 / batch.tokens() as f64, &advantages);
                        assert_within(&loss.dlogps[i], &want, IDENTITY, 1.0, "gradient");
                    }
                    i += 1;
                }
            }
        });
    }
}

#[test]
fn gae_at_lambda_1_is_the_return_minus_the_value() {
    check(CASES, rewards_and_values(), |(rewards, values, gamma)| {
        let mut returns = rewards.clone();
        for t in (0..returns.len() - 1).rev() {
            returns[t] += gamma * returns[t + 1];
        }
        let want: Vec<f64> = returns.iter().zip(&values).map(|(g, v)| g - v).collect();
        assert_within(&gae(&rewards, &values, gamma, 1.0), &want, IDENTITY, 30.0, "gae");
    });
}

#[test]
fn gae_at_lambda_0_is_the_td_error() {
    check(CASES, rewards_and_values(), |(rewards, values, gamma)| {
        assert_eq!(gae(&rewards, &values, gamma, 0.0), td_errors(&rewards, &values, gamma));
    });
}

#[test]
fn undiscounted_td_errors_telescope_to_the_return_minus_the_first_value() {
    check(CASES, rewards_and_values(), |(rewards, values, _)| {
        let sum: f64 = td_errors(&rewards, &values, 1.0).iter().sum();
        assert!((sum - (rewards.iter().sum::<f64>() - values[0])).abs() < 30.0 * IDENTITY);
    });
}

fn rewards_and_values() -> impl Strategy<Value = (Vec<f64>, Vec<f64>, f64)> {
    (1usize..=30).prop_flat_map(|n| {
        let numbers = || prop::collection::vec(-1.0..1.0f64, n);
        (numbers(), numbers(), 0.0..=1.0f64)
    })
}
