//! Baselines and scales of the advantage.

use super::{CASES, assert_same, method, outcomes, times};
use crate::strategies::{Batch, batch, check, graded};
use crate::tolerance::{IDENTITY, assert_close, assert_within};
use grpo_lambda::advantage::{Baseline, OutcomeAdvantage, Scale, Std};
use proptest::prelude::*;

#[test]
fn rloo_is_g_over_g_minus_1_times_the_centred_reward() {
    check(CASES, batch(), |batch| {
        let advantages =
            |baseline| outcomes(OutcomeAdvantage { baseline, scale: Scale::None, clamp: None }, &batch);
        let (rloo, centred) = (advantages(Baseline::LeaveOneOut), advantages(Baseline::GroupMean));
        for (g, group) in batch.groups.iter().enumerate() {
            let n = group.responses.iter().filter(|r| r.reward.is_some()).count() as f64;
            let stretch = if n > 1.0 { n / (n - 1.0) } else { 1.0 };
            assert_close(&rloo[g], &times(stretch, &centred[g]), IDENTITY, "advantages");
        }
    });
}

#[test]
fn rloo_is_the_reward_minus_the_mean_of_the_others() {
    check(CASES, graded(), |batch| {
        let rloo = outcomes(
            OutcomeAdvantage { baseline: Baseline::LeaveOneOut, scale: Scale::None, clamp: None },
            &batch,
        );
        for (group, a) in batch.groups.iter().zip(&rloo) {
            let r: Vec<f64> = group.rewards().into_iter().flatten().collect();
            let others = |i: usize| (r.iter().sum::<f64>() - r[i]) / (r.len() as f64 - 1.0);
            let want: Vec<f64> = (0..r.len()).map(|i| r[i] - others(i)).collect();
            assert_within(a, &want, IDENTITY, 4.0, "advantages");
        }
    });
}

#[test]
fn on_policy_dr_grpo_is_rloo_times_g_minus_1_over_g_over_the_maximum_length() {
    let (dr, rloo) = (method("dr_grpo max_length=64"), method("rloo"));
    check(CASES, graded().prop_map(Batch::on_policy), |batch| {
        let (a, b) = (batch.evaluate(&dr), batch.evaluate(&rloo));
        for members in batch.members() {
            let g = members.len() as f64;
            for i in members {
                let want = times((g - 1.0) / g / 64.0, &b.dlogps[i]);
                assert_within(&a.dlogps[i], &want, IDENTITY, 1.0, "gradient");
            }
        }
    });
}

#[test]
fn dividing_by_the_standard_deviation_rescales_each_group_by_one_positive_factor() {
    let (scaled, centred) = (method("grpo"), method("grpo scale=none"));
    check(CASES, batch(), |batch| {
        let (a, b) = (batch.evaluate(&scaled), batch.evaluate(&centred));
        for members in batch.members() {
            let (a, b) = (a.dlogps[members.clone()].concat(), b.dlogps[members].concat());
            let most = (0..b.len()).max_by(|&i, &j| b[i].abs().total_cmp(&b[j].abs())).expect("a token");
            if b[most] != 0.0 {
                let factor = a[most] / b[most];
                assert!(factor > 0.0);
                assert_close(&a, &times(factor, &b), IDENTITY, "gradient");
            }
        }
    });
}

fn shifted(batch: Batch, by: f64, factor: f64) -> Batch {
    batch.with(|_, _, r| r.reward = r.reward.map(|x| factor * x + by))
}

#[test]
fn z_scores_do_not_see_a_shift_of_the_rewards() {
    for words in ["grpo", "grpo scale=batch", "grpo scale=none", "rloo", "grpo_lambda"] {
        let m = method(words);
        check(CASES / 2, (batch(), -3.0..3.0f64), |(batch, by)| {
            let moved = shifted(batch.clone(), by, 1.0);
            assert_same(&batch.evaluate(&m), &moved.evaluate(&m), words);
        });
    }
}

#[test]
fn z_scores_without_epsilon_do_not_see_a_positive_scale_of_the_rewards() {
    for words in ["grpo std_epsilon=0", "grpo std_preset=deepseekmath", "grpo scale=batch std_epsilon=0"] {
        let m = method(words);
        check(CASES / 2, (batch(), 0.01..100.0f64), |(batch, factor)| {
            let scaled = shifted(batch.clone(), 0.0, factor);
            assert_same(&batch.evaluate(&m), &scaled.evaluate(&m), words);
        });
    }
}

#[test]
fn centred_rewards_scale_with_the_rewards() {
    let m = method("dr_grpo");
    check(CASES, (batch(), 0.1..10.0f64), |(batch, factor)| {
        let scaled = shifted(batch.clone(), 0.0, factor).evaluate(&m).dlogps.concat();
        assert_close(&scaled, &times(factor, &batch.evaluate(&m).dlogps.concat()), IDENTITY, "gradient");
    });
}

#[test]
fn the_batch_baseline_of_a_single_group_is_its_mean() {
    check(CASES, batch(), |mut batch| {
        batch.groups.truncate(1);
        let advantages = |baseline| {
            outcomes(OutcomeAdvantage { baseline, scale: Scale::Group(Std::TRL), clamp: None }, &batch)
        };
        assert_eq!(advantages(Baseline::BatchMean), advantages(Baseline::GroupMean));
    });
}

#[test]
fn advantages_of_a_group_sum_to_zero_without_a_clamp() {
    for words in ["grpo", "grpo scale=none", "grpo scale=batch", "rloo"] {
        let m = method(words);
        check(CASES / 2, batch(), |batch| {
            let loss = batch.evaluate(&m);
            for members in batch.members() {
                let sum: f64 = loss.advantages[members].iter().map(|a| a[0]).sum();
                assert!(sum.abs() < 1e2 * IDENTITY, "{words}: {sum}");
            }
        });
    }
}
