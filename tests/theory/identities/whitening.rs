//! Advantages per token: REINFORCE++, the 80/20 mask, the optimal token baseline.

use super::{CASES, assert_same, equal_on, even, method};
use crate::strategies::{Batch, batch, check, graded};
use crate::tolerance::{IDENTITY, assert_close, assert_within};
use grpo_lambda::group::{ExtraInputs, Response};
use proptest::prelude::*;
use std::cell::Cell;

#[test]
fn reinforce_pp_whitens_the_discounted_reward_over_all_tokens_of_the_batch() {
    let m = method("reinforce_pp gamma=0.9");
    check(CASES, batch(), |batch| {
        let loss = batch.evaluate(&m);
        let mut raw = Vec::new();
        for r in batch.responses() {
            let g = |t: usize| r.reward.map(|x| x * 0.9f64.powi((r.len() - 1 - t) as i32));
            raw.push((0..r.len()).map(g).collect::<Vec<_>>());
        }
        let known: Vec<f64> = raw.iter().flatten().flatten().copied().collect();
        let n = known.len() as f64;
        let mean = known.iter().sum::<f64>() / n;
        let std = (known.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0) + 1e-8).sqrt();
        if std.is_nan() || std <= 1e-3 {
            return;
        }
        for (got, raw) in loss.advantages.iter().zip(&raw) {
            let want: Vec<f64> = raw.iter().map(|x| x.map_or(0.0, |x| (x - mean) / std)).collect();
            assert_within(got, &want, IDENTITY, 100.0, "advantages");
        }
    });
}

#[test]
fn the_kl_penalty_of_reinforce_pp_is_part_of_the_reward_of_each_token() {
    let m = method("reinforce_pp whiten=false gamma=0.8 reward_beta=0.3");
    check(CASES, batch(), |batch| {
        let loss = batch.evaluate(&m);
        for (r, a) in batch.responses().zip(&loss.advantages) {
            let (Some(reward), Some(reference)) = (r.reward, &r.ref_logps) else { continue };
            // From the definition, O(T^2): sum_{l>=t} 0.8^(l-t) r_l.
            let r_at = |l: usize| {
                -0.3 * (r.old_logps[l] - reference[l]) + if l + 1 == r.len() { reward } else { 0.0 }
            };
            let want: Vec<f64> = (0..r.len())
                .map(|t| (t..r.len()).map(|l| 0.8f64.powi((l - t) as i32) * r_at(l)).sum())
                .collect();
            assert_within(a, &want, IDENTITY, 10.0, "returns");
        }
    });
}

#[test]
fn reinforce_pp_does_not_see_a_shift_of_the_rewards() {
    let m = method("reinforce_pp");
    check(CASES, (batch(), -3.0..3.0f64), |(batch, by)| {
        let moved = batch.clone().with(|_, _, r| r.reward = r.reward.map(|x| x + by));
        let (a, b) = (batch.evaluate(&m).dlogps.concat(), moved.evaluate(&m).dlogps.concat());
        assert_close(&a, &b, 1e-9, "a shift costs digits of the variance");
    });
}

#[test]
fn the_entropy_mask_keeps_the_gradient_of_the_chosen_tokens_and_silences_the_others() {
    let (all, kl) = (method("dapo"), method("high_entropy beta=0.1"));
    let masked = method("high_entropy");
    let (kept, silent) = (Cell::new(0usize), Cell::new(0usize));
    check(CASES, graded(), |batch| {
        let mut entropies: Vec<f64> =
            batch.responses().flat_map(|r| r.extra_inputs.entropies.clone().expect("generated")).collect();
        entropies.sort_by(f64::total_cmp);
        let place = 0.8 * (entropies.len() - 1) as f64;
        let (i, share) = (place.floor() as usize, place.fract());
        let above = entropies[(i + 1).min(entropies.len() - 1)];
        let tau = entropies[i] + share * (above - entropies[i]);
        let (a, b, c) = (batch.evaluate(&all), batch.evaluate(&masked), batch.evaluate(&kl));
        for (i, r) in batch.responses().enumerate() {
            let h = r.extra_inputs.entropies.as_ref().expect("generated");
            for t in 0..r.len() {
                let want = if h[t] >= tau { a.dlogps[i][t] } else { 0.0 };
                assert_eq!(b.dlogps[i][t], want);
                let counter = if h[t] >= tau { &kept } else { &silent };
                counter.set(counter.get() + 1);
            }
        }
        assert_eq!(b.metrics.tokens, batch.tokens(), "denominators keep every token");
        assert!(c.metrics.kl_sum.abs() > 0.0 || c.metrics.kl_loss == 0.0);
    });
    assert!(kept.get() > 300 && silent.get() > 3 * kept.get(), "{} {}", kept.get(), silent.get());
}

fn energetic(rewards: &[f64], logps: &[&[f64]], collisions: &[&[f64]]) -> Batch {
    let response = |i: usize| Response {
        extra_inputs: ExtraInputs { collisions: Some(collisions[i].to_vec()), ..ExtraInputs::default() },
        ..Response::graded(logps[i].to_vec(), rewards[i])
    };
    Batch::alone((0..rewards.len()).map(response).collect())
}

#[test]
fn the_optimal_token_baseline_by_hand() {
    // pi = 1/2 of two tokens: energy 1 - 1 + 1/2 = 1/2. pi = 1/4 of four: 1 - 1/2 + 1/4 = 3/4.
    let (half, quarter) = (0.5f64.ln(), 0.25f64.ln());
    let batch = energetic(&[1.0, 0.0], &[&[half, half], &[quarter]], &[&[0.5, 0.5], &[0.25]]);
    let a = batch.evaluate(&method("optimal_token_baseline")).advantages;
    // Token 0: B = (1/2) / (1/2 + 3/4) = 2/5. Token 1: alone, its own baseline.
    assert_within(&a.concat(), &[0.6, 0.0, -0.4], IDENTITY, 1.0, "advantages");
}

#[test]
fn with_equal_energies_and_lengths_the_optimal_token_baseline_is_the_group_mean() {
    let equal = graded().prop_map(|b| {
        even(b).with(|_, _, r| {
            r.old_logps = vec![-0.7; r.len()];
            r.ref_logps = None;
            r.extra_inputs.collisions = Some(vec![0.5; r.len()]);
        })
    });
    equal_on(equal, "optimal_token_baseline", "grpo scale=none reduction=token_mean");
}

#[test]
fn a_position_without_energy_takes_the_plain_mean() {
    let batch = energetic(&[1.0, 0.0, 0.0], &[&[0.0], &[0.0], &[0.0]], &[&[1.0], &[1.0], &[1.0]]);
    let (otb, mean) = (method("optimal_token_baseline"), method("grpo scale=none reduction=token_mean"));
    assert_same(&batch.evaluate(&otb), &batch.evaluate(&mean), "certain tokens");
}

#[test]
fn the_mask_of_each_response_alone_takes_its_own_quantile() {
    let response = |entropies: &[f64], reward| Response {
        extra_inputs: ExtraInputs { entropies: Some(entropies.to_vec()), ..ExtraInputs::default() },
        ..Response::graded(vec![-0.5; entropies.len()], reward)
    };
    // The medians: 0.6 of the batch; 0.2 and 0.8 of the responses.
    let batch =
        Batch::alone(vec![response(&[0.1, 0.2, 0.3], 1.0), response(&[0.9, 0.8, 0.5, 0.7, 1.0], 0.0)]);
    let kept = |words: &str| -> Vec<bool> {
        batch.evaluate(&method(words)).advantages.concat().iter().map(|a| *a != 0.0).collect()
    };
    let whole = kept("high_entropy top_fraction=0.5");
    assert_eq!(whole, [false, false, false, true, true, false, true, true]);
    let own = kept("high_entropy top_fraction=0.5 entropy_scope=response");
    assert_eq!(own, [false, true, true, true, true, false, false, true]);
}
