//! Methods that differ from GRPO in ratio, clip or aggregation: GSPO, GSPO-token, DAPO, BNPO, CISPO.

use super::{CASES, assert_same, assert_same_gradient, method, times};
use crate::strategies::{Batch, batch, check, graded};
use crate::tolerance::{IDENTITY, assert_close, assert_within};
use proptest::prelude::*;
use std::cell::Cell;

#[test]
fn gspo_clips_whole_responses() {
    let gspo = method("gspo epsilon_low=0.05 epsilon_high=0.05");
    let clipped = Cell::new(0);
    check(CASES, graded(), |batch| {
        for g in &batch.evaluate(&gspo).dlogps {
            let silent = g.iter().filter(|g| **g == 0.0).count();
            assert!(silent == 0 || silent == g.len());
            clipped.set(clipped.get() + usize::from(silent > 0));
        }
    });
    assert!(clipped.get() > 50);
}

#[test]
fn luspo_is_gspo_with_each_response_weighted_by_its_length() {
    let (gspo, luspo) = (method("gspo"), method("gspo reduction=response_sum"));
    check(CASES, batch(), |batch| {
        let (a, b) = (batch.evaluate(&gspo), batch.evaluate(&luspo));
        for (a, b) in a.dlogps.iter().zip(&b.dlogps) {
            assert_close(&times(a.len() as f64, a), b, IDENTITY, "gradient");
        }
    });
}

#[test]
fn the_overlong_penalty_of_dapo_is_a_change_of_the_rewards() {
    let (dapo, plain) = (method("dapo overlong_limit=30 overlong_cache=20"), method("dapo"));
    check(CASES, batch(), |batch| {
        // 0 up to 10 tokens, -1 from 30 on, a straight line between.
        let punished = batch.clone().with(|_, _, r| {
            let len = r.len() as f64;
            let penalty = if len <= 10.0 {
                0.0
            } else if len > 30.0 {
                -1.0
            } else {
                (10.0 - len) / 20.0
            };
            r.reward = r.reward.map(|x| x + penalty);
        });
        assert_same_gradient(&batch.evaluate(&dapo), &punished.evaluate(&plain), "gradient");
    });
}

#[test]
fn bnpo_is_the_mean_over_groups_of_dapo_aggregation_within_each() {
    let (bnpo, token_mean) = (method("bnpo beta=0.1"), method("grpo reduction=token_mean beta=0.1"));
    check(CASES, batch(), |batch| {
        let n = batch.groups.len() as f64;
        let (mut gradient, mut value) = (Vec::new(), 0.0);
        for (group, members) in batch.groups.iter().zip(batch.members()) {
            let logps = batch.logps[members].to_vec();
            let alone = Batch { groups: vec![group.clone()], logps }.evaluate(&token_mean);
            gradient.extend(times(1.0 / n, &alone.dlogps.concat()));
            value += alone.value / n;
        }
        let loss = batch.evaluate(&bnpo);
        assert_close(&loss.dlogps.concat(), &gradient, IDENTITY, "gradient");
        assert_within(&[loss.value], &[value], IDENTITY, super::magnitude(&loss), "value");
    });
}

#[test]
fn the_gradient_of_cispo_is_the_clipped_ratio_times_the_advantage_and_never_silent() {
    for (words, low, high) in [("cispo cap=1.5", 0.0, 1.5), ("cispo clip_form=interval", 0.8, 1.28)] {
        let cispo = method(words);
        let beyond = Cell::new(0);
        check(CASES, batch(), |batch| {
            let loss = batch.evaluate(&cispo);
            let mut value = 0.0;
            for (i, r) in batch.responses().enumerate() {
                for t in 0..r.len() {
                    let ratio = (batch.logps[i][t] - r.old_logps[t]).exp();
                    let weight = f64::clamp(ratio, low, high) * loss.advantages[i][t] / batch.tokens() as f64;
                    assert_within(&[loss.dlogps[i][t]], &[-weight], IDENTITY, 1.0, words);
                    value -= weight * batch.logps[i][t];
                    beyond.set(beyond.get() + usize::from(!(low..=high).contains(&ratio)));
                }
            }
            assert_within(&[loss.value], &[value], IDENTITY, 100.0, words);
        });
        assert!(beyond.get() > 500, "{words}: {}", beyond.get());
    }
}

#[test]
fn beta_normalisation_with_shapes_of_three_halves_is_the_z_score_of_binary_rewards_times_pi_over_8() {
    let beta = method("bnpo_beta alpha=1.5 beta_shape=1.5");
    let z = method("grpo std_preset=deepseekmath reduction=token_mean");
    let binary = || batch().prop_map(|b| b.with(|i, _, r| r.reward = Some(f64::from(i % 3 == 0))));
    check(CASES, binary(), |batch| {
        let (a, b) = (batch.evaluate(&beta).dlogps.concat(), batch.evaluate(&z).dlogps.concat());
        assert_close(&a, &times(std::f64::consts::PI / 8.0, &b), 1e-11, "gradient"); // ln_beta has 12 digits
    });
}

#[test]
fn beta_normalisation_takes_its_shapes_from_the_moments_of_the_groups() {
    // Rates 1/4 and 3/4: m = 1/2, v = 1/8 (ddof 1), so a = b = 1/2 and alpha = beta = 7/6.
    let group = |right: usize| grpo_lambda::group::Group {
        responses: (0..4)
            .map(|i| grpo_lambda::group::Response::graded(vec![-0.5; 2], f64::from(i < right)))
            .collect(),
    };
    let groups = vec![group(1), group(3)];
    let batch = Batch { logps: vec![vec![-0.5; 2]; 8], groups };
    let (moments, spelt) =
        (method("bnpo_beta"), method("bnpo_beta alpha=1.1666666666666667 beta_shape=1.1666666666666667"));
    assert_same(&batch.evaluate(&moments), &batch.evaluate(&spelt), "moments");
    // A_i = 3/4 / f(1/4; 7/6, 7/6), f = (3/16)^(1/6) / B(7/6, 7/6), B = 0.7228580 (by quadrature).
    let a = batch.evaluate(&moments).advantages[0][0];
    assert!((a - 0.75 * 0.722_857_98 / (3.0f64 / 16.0).powf(1.0 / 6.0)).abs() < 1e-8, "{a}");
}
