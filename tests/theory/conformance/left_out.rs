//! Responses without a reward, masked responses and padded slots: what is left out has no influence.

use super::{OUTCOME_ONLY, SINGLE_SETS, bump, counter, describe, overrides_of};
use crate::strategies::{batch, build, check_as, for_every_method, has, settings};
use crate::tolerance::{IDENTITY, assert_close};
use grpo_lambda::group::{ExtraInputs, InputKind, InputSource, PerStep, Series, StatePerToken};
use grpo_lambda::methods::{Credit, REGISTRY};
use grpo_lambda::padded;
use proptest::prelude::*;
use std::convert::Infallible;

/// Cut responses masked, no token dropped, and no statistic over the tokens of the batch, which a mask would change.
const MASKED: [(&str, &str); 7] = [
    ("mask_truncated", "true"),
    ("whiten", "false"),
    ("entropy_threshold", "1"),
    ("drop_sure", "false"),
    ("reject", "none"),
    ("rejected", "stay"),
    // The reward of a masked response loses no KL, as in TRL, so that a mask changes the baseline of the others.
    ("reward_beta", "0"),
];

/// Methods that compare a response with the tokens, states or further rewards of those that carry weight, so that a mask changes the advantages of the others.
const BASELINE_OF_TOKENS: [&str; 7] = [
    "optimal_token_baseline",
    "prefix_rloo",
    "systematic_prefix_rloo",
    "prime",
    "ridge_rloo",
    "shear",
    "gdpo",
];

/// The weight of a response's tokens, some of which may have been dropped; 1 where all have.
fn weight_of(credit: &Credit) -> f64 {
    let weight = credit.weights.iter().copied().fold(0.0, f64::max);
    if weight > 0.0 { weight } else { 1.0 }
}

#[test]
fn a_response_without_a_reward_changes_nothing_but_the_count_of_tokens() {
    let compared = counter();
    for_every_method(
        100,
        &[("mask_truncated", "false"), ("reject", "none"), ("rejected", "stay"), SINGLE_SETS],
        |configured, batch| {
            let keep: Vec<bool> = batch.responses().map(|r| r.reward.is_some()).collect();
            let mut without = batch.clone();
            for group in &mut without.groups {
                group.responses.retain(|r| r.reward.is_some());
            }
            let kept = |i: &usize| keep[*i];
            without.logps = (0..keep.len()).filter(kept).map(|i| batch.logps[i].clone()).collect();
            if without.groups.iter().any(|g| g.responses.is_empty())
                || without.logps.len() == batch.logps.len()
            {
                return;
            }
            let (with_credit, alone_credit) =
                (configured.method.credit(&batch.groups), configured.method.credit(&without.groups));
            let (with, alone) = (batch.evaluate(configured), without.evaluate(configured));
            for (j, i) in (0..keep.len()).filter(kept).enumerate() {
                assert_eq!(with_credit[i].advantages, alone_credit[j].advantages, "{}", describe(configured));
                // The reduction may count the extra response; per unit of weight the gradient is the same.
                let unit = |g: &[f64], w: f64| g.iter().map(|g| g / w).collect::<Vec<_>>();
                let (a, b) = (weight_of(&with_credit[i]), weight_of(&alone_credit[j]));
                assert_close(
                    &unit(&with.dlogps[i], a),
                    &unit(&alone.dlogps[j], b),
                    IDENTITY,
                    &describe(configured),
                );
                bump(&compared, 1);
            }
        },
    );
    assert!(compared.get() > 500, "{}", compared.get());
}

#[test]
fn a_response_without_a_reward_gets_no_policy_gradient() {
    let seen = counter();
    for_every_method(80, &OUTCOME_ONLY, |configured, batch| {
        let loss = batch.evaluate(configured);
        for (i, _) in batch.responses().enumerate().filter(|(_, r)| r.reward.is_none()) {
            assert!(loss.dlogps[i].iter().all(|&g| g == 0.0), "{}", describe(configured));
            bump(&seen, 1);
        }
        assert_eq!(loss.metrics.ungraded, batch.responses().filter(|r| r.reward.is_none()).count());
    });
    assert!(seen.get() > 100, "{}", seen.get());
}

#[test]
fn masked_truncated_responses_get_no_gradient_and_the_others_keep_theirs() {
    let (masked, kept) = (counter(), counter());
    for_every_method(80, &MASKED, |configured, batch| {
        if !has(configured.spec, "mask_truncated") {
            return;
        }
        let loss = batch.evaluate(configured);
        let open = build(configured.spec, overrides_of(configured), &[("mask_truncated", "false")]);
        let unmasked = batch.evaluate(&open);
        let credit = configured.method.credit(&batch.groups);
        let open_credit = open.method.credit(&batch.groups);
        let mut tokens = 0;
        for (i, r) in batch.responses().enumerate() {
            assert_eq!(loss.dlogps[i].len(), r.len());
            if r.truncated {
                assert!(loss.dlogps[i].iter().all(|&g| g == 0.0), "{}", describe(configured));
                bump(&masked, 1);
            } else if BASELINE_OF_TOKENS.contains(&configured.spec.name) {
                tokens += r.len();
            } else {
                // Its reward still counts in the group's statistics, as in TRL; only the number of tokens may change.
                let share = weight_of(&credit[i]) / weight_of(&open_credit[i]);
                let scaled: Vec<f64> = unmasked.dlogps[i].iter().map(|g| g * share).collect();
                assert_close(&loss.dlogps[i], &scaled, IDENTITY, &describe(configured));
                tokens += r.len();
                bump(&kept, 1);
            }
        }
        assert_eq!(loss.metrics.tokens, tokens);
    });
    assert!(masked.get() > 100 && kept.get() > 500, "{} {}", masked.get(), kept.get());
}

#[test]
fn masked_responses_may_hold_anything_be_it_no_number() {
    let spoilt = counter();
    for_every_method(
        80,
        &[("mask_truncated", "true"), ("reject", "none"), ("rejected", "stay")],
        |configured, batch| {
            if !has(configured.spec, "mask_truncated") {
                return;
            }
            let mut garbage = batch.clone().with(|_, _, r| {
                if r.truncated {
                    let len = r.len();
                    r.old_logps = vec![f64::NAN; len];
                    r.ref_logps = Some(vec![f64::NAN; len]);
                    r.extra_inputs = r.extra_inputs.filled(len, f64::NAN);
                }
            });
            for (r, logps) in batch.responses().zip(&mut garbage.logps) {
                if r.truncated {
                    logps.fill(f64::NAN);
                    bump(&spoilt, 1);
                }
            }
            assert_eq!(batch.evaluate(configured).dlogps, garbage.evaluate(configured).dlogps);
            assert_eq!(batch.evaluate(configured).value, garbage.evaluate(configured).value);
            assert_eq!(batch.evaluate(configured).metrics, garbage.evaluate(configured).metrics);
        },
    );
    assert!(spoilt.get() > 500, "{}", spoilt.get());
}

/// Extra inputs whose tokens lie in the slots of a mask; the other slots hold no number.
struct Scattered<'a>(&'a ExtraInputs, &'a [bool]);

impl Scattered<'_> {
    fn series(&self, kind: InputKind) -> Option<Series<'_>> {
        self.0.series().find(|(found, _)| *found == kind).map(|(_, series)| series)
    }
}

impl InputSource for Scattered<'_> {
    type Error = Infallible;

    fn numbers(&mut self, kind: InputKind) -> Result<Option<Vec<f64>>, Infallible> {
        Ok(self.series(kind).map(|series| match series {
            Series::PerToken(row) => padded::scatter(row, self.1, f64::NAN),
            Series::PerReasoningToken(row) | Series::PerReward(row) => row.to_vec(),
            _ => panic!("{}: no numbers", kind.name()),
        }))
    }

    fn steps(&mut self, _: InputKind) -> Result<Option<PerStep>, Infallible> {
        Ok(self.0.steps.clone())
    }

    fn states(&mut self, _: InputKind) -> Result<Option<StatePerToken>, Infallible> {
        Ok(self.0.hidden.as_ref().map(|states| padded::scatter(states, self.1, vec![f64::NAN; 2])))
    }
}

#[test]
fn padded_and_masked_slots_may_hold_anything_once_compressed_to_the_tokens_that_are_trained() {
    let dropped = counter();
    let layout = prop::collection::vec(prop::bool::weighted(0.3), 400);
    for &spec in REGISTRY {
        check_as(spec.name, 30, (settings(spec), batch(), layout.clone()), |(overrides, batch, gaps)| {
            let configured = build(spec, overrides, &[]);
            let want = batch.evaluate(&configured);
            // Each row with slots that are no tokens of the policy scattered in, and after its end.
            let mask_of = |len: usize| {
                let mut mask = Vec::new();
                let mut placed = 0;
                for &gap in gaps.iter().cycle() {
                    mask.push(!gap);
                    placed += usize::from(!gap);
                    if placed == len {
                        break;
                    }
                }
                mask.extend([false; 3]);
                mask
            };
            let mut round_trip = batch.clone();
            let masks: Vec<Vec<bool>> = batch.responses().map(|r| mask_of(r.len())).collect();
            for (row, mask) in round_trip.logps.iter_mut().zip(&masks) {
                *row = padded::compress(&padded::scatter(row, mask, f64::NAN), mask);
                bump(&dropped, mask.iter().filter(|m| !**m).count());
            }
            let pass = |row: &mut Vec<f64>, mask: &[bool]| {
                *row = padded::compress(&padded::scatter(row, mask, f64::NAN), mask);
            };
            let round_trip = round_trip.with(|i, _, r| {
                pass(&mut r.old_logps, &masks[i]);
                r.ref_logps.iter_mut().for_each(|row| pass(row, &masks[i]));
                r.tokens = padded::compress(&padded::scatter(&r.tokens, &masks[i], u32::MAX), &masks[i]);
                let Ok(scattered) = ExtraInputs::read(&mut Scattered(&r.extra_inputs, &masks[i]));
                r.extra_inputs = padded::compress_inputs(&scattered, &masks[i]);
            });
            let got = round_trip.evaluate(&configured);
            assert_eq!((&got.value, &got.dlogps), (&want.value, &want.dlogps), "{}", describe(&configured));
            for (row, mask) in got.dlogps.iter().zip(&masks) {
                let wide = padded::scatter(row, mask, 0.0);
                assert!(wide.iter().zip(mask).all(|(g, m)| *m || *g == 0.0) && wide.len() == mask.len());
            }
        });
    }
    assert!(dropped.get() > 1_000);
}
