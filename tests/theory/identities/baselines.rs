//! Baselines and scales of the advantage.

use super::{CASES, assert_same, method, outcomes, times};
use crate::strategies::{Batch, batch, check};
use crate::tolerance::{IDENTITY, assert_close};
use grpo_lambda::advantage::{Baseline, OutcomeAdvantage, Scale, Std};

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
fn the_batch_baseline_of_a_single_group_is_its_mean() {
    check(CASES, batch(), |mut batch| {
        batch.groups.truncate(1);
        let advantages = |baseline| {
            outcomes(OutcomeAdvantage { baseline, scale: Scale::Group(Std::TRL), clamp: None }, &batch)
        };
        assert_eq!(advantages(Baseline::BatchMean), advantages(Baseline::GroupMean));
    });
}
