//! Claim `conformance`: what every registered method must satisfy, whatever its settings.
//!
//! A new method is tested by its line in the registry.

use crate::strategies::{
    Batch, Overrides, batch, batch_up_to, build, check, check_as, corners, even_evidence, for_every_method,
    has, settings,
};
use crate::tolerance::{
    FINITE_DIFFERENCE, FINITE_DIFFERENCE_FLOOR, FINITE_DIFFERENCE_ROUNDING, IDENTITY, STEP, assert_close,
    assert_within, size,
};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{BatchLoss, Configured, Credit, REGISTRY, parse};
use grpo_lambda::metrics::Metrics;
use grpo_lambda::padded;
use proptest::prelude::*;
use std::cell::Cell;

/// No KL term: what remains is the policy gradient.
const NO_KL: [(&str, &str); 1] = [("beta", "0")];

/// Nothing but the outcome: no KL term, in the loss or the reward, and no penalty of long responses.
const OUTCOME_ONLY: [(&str, &str); 3] = [("beta", "0"), ("reward_beta", "0"), ("overlong_limit", "none")];

/// Cut responses masked, no token dropped, and no statistic over the tokens of the batch, which a mask would change.
const MASKED: [(&str, &str); 4] =
    [("mask_truncated", "true"), ("whiten", "false"), ("entropy_threshold", "1"), ("drop_sure", "false")];

/// Methods that compare a response with the tokens or states of those that carry weight, so that a mask changes the advantages of the others.
const BASELINE_OF_TOKENS: [&str; 2] = ["optimal_token_baseline", "shear_reconstructed"];

/// Methods with a trace that adds up log-ratios without dividing by its mass.
const ACCUMULATE: [&str; 3] = ["grpo_lambda", "p_trace_reconstructed", "s_trace_reconstructed"];

fn bump(counter: &Cell<usize>, by: usize) {
    counter.set(counter.get() + by);
}

fn counter() -> Cell<usize> {
    Cell::new(0)
}

/// Every gradient entry in one row.
fn flat(loss: &BatchLoss) -> Vec<f64> {
    loss.dlogps.concat()
}

/// The size of the loss's terms at ratio 1: `sum w |A|` over all tokens.
fn terms(configured: &Configured, batch: &Batch) -> f64 {
    let credit = configured.method.credit(&batch.groups);
    credit.iter().flat_map(|c| c.weights.iter().zip(&c.advantages)).map(|(w, a)| (w * a).abs()).sum()
}

/// The weight of a response's tokens, some of which may have been dropped; 1 where all have.
fn weight_of(credit: &Credit) -> f64 {
    let weight = credit.weights.iter().copied().fold(0.0, f64::max);
    if weight > 0.0 { weight } else { 1.0 }
}

fn describe(configured: &Configured) -> String {
    let entries: Vec<_> = configured.settings.entries().map(|(k, v)| format!("{k}={v}")).collect();
    format!("{} {}", configured.spec.name, entries.join(" "))
}

#[test]
fn the_gradient_is_the_derivative_of_the_batch_loss_in_every_log_prob() {
    let regions = |m: &Metrics| (m.clipped_low, m.clipped_high, m.saturated);
    for &spec in REGISTRY {
        let (checked, at_a_kink, low, high) = (counter(), counter(), counter(), counter());
        let lengths = prop_oneof![4 => batch_up_to(10), 1 => batch_up_to(40)];
        check_as(spec.name, 200, (settings(spec), lengths), |(overrides, batch)| {
            let configured = build(spec, overrides, &[]);
            let at = batch.evaluate(&configured);
            let largest = size(&flat(&at));
            let terms = terms(&configured, &batch);
            // Credits are fixed before any log-probability moves, and shares add up: only the response's own share can change.
            let credits = configured.method.credit(&batch.groups);
            for (i, response) in batch.responses().enumerate() {
                let own = &batch.logps[i];
                let share = |logps: &[f64]| configured.method.loss_around(response, &credits[i], logps, own);
                let at_own = share(own);
                for t in 0..own.len() {
                    let mut moved = own.clone();
                    let mut near = |steps: f64| {
                        moved[t] = own[t] + steps * STEP;
                        share(&moved)
                    };
                    let [a, b, c, d] = [-2.0, -1.0, 1.0, 2.0].map(&mut near);
                    // Raising one log-probability can only raise trace ratios, so a token that changes its clip region
                    // within the stencil, on either side, shows in these counts: the loss has a kink there.
                    if [&a, &b, &c, &d].iter().any(|l| regions(&l.metrics) != regions(&at_own.metrics)) {
                        bump(&at_a_kink, 1);
                        continue;
                    }
                    let slope = (a.value - 8.0 * b.value + 8.0 * c.value - d.value) / (12.0 * STEP);
                    let ours = at.dlogps[i][t];
                    let allowed = FINITE_DIFFERENCE * ours.abs()
                        + FINITE_DIFFERENCE_FLOOR * largest
                        + FINITE_DIFFERENCE_ROUNDING * terms;
                    assert!(
                        (ours - slope).abs() <= allowed,
                        "response {i} token {t}: {ours} but finite differences give {slope}\n{}",
                        describe(&configured)
                    );
                    bump(&checked, 1);
                }
            }
            bump(&low, at.metrics.clipped_low);
            bump(&high, at.metrics.clipped_high);
        });
        println!(
            "{}: {} derivatives checked, {} at a kink left out; {} tokens clipped below, {} above",
            spec.name,
            checked.get(),
            at_a_kink.get(),
            low.get(),
            high.get()
        );
        assert!(checked.get() > 2_000, "{}: {}", spec.name, checked.get());
        assert!(at_a_kink.get() * 4 < checked.get(), "{}: {} kinks", spec.name, at_a_kink.get());
        if has(spec, "clip") {
            assert!(low.get() > 30 && high.get() > 100, "{}: both clips are reached", spec.name);
        }
    }
}

#[test]
fn a_group_whose_rewards_agree_teaches_nothing() {
    let one_group = || {
        (batch(), -2.0..2.0f64)
            .prop_map(|(mut b, reward)| {
                b.groups.truncate(1);
                b.logps.truncate(b.groups[0].responses.len());
                b.with(|_, _, r| r.reward = r.reward.map(|_| reward))
            })
            .boxed()
    };
    for_every_method(100, &OUTCOME_ONLY, one_group, |configured, batch| {
        // A critic and a discount teach on their own; where rewards and values are 0 they do not either.
        let batch = match configured.method.compares_rewards() {
            true => batch.clone(),
            false => batch.clone().with(|_, _, r| {
                r.reward = r.reward.map(|_| 0.0);
                r.evidence.values = Some(vec![0.0; r.len()]);
                let steps = r.evidence.steps.as_mut().expect("generated");
                steps.iter_mut().for_each(|s| s.value = 0.0);
            }),
        };
        let loss = batch.evaluate(configured);
        assert!(flat(&loss).iter().all(|&g| g == 0.0), "{}", describe(configured));
        assert_eq!(loss.value, 0.0);
        assert_eq!((loss.metrics.groups, loss.metrics.zero_variance_groups), (1, 1));
    });
}

/// A batch with its groups, and the responses within each, in another order; and where each response went.
fn permuted(batch: &Batch, seed: usize) -> (Batch, Vec<usize>) {
    let turn = |n: usize| (0..n).map(move |i| (n - 1 - i + seed) % n); // a rotated reversal: no fixed order survives
    let starts: Vec<usize> = batch
        .groups
        .iter()
        .scan(0, |next, g| {
            let start = *next;
            *next += g.responses.len();
            Some(start)
        })
        .collect();
    let mut order = Vec::new();
    let mut groups = Vec::new();
    for g in turn(batch.groups.len()) {
        let members: Vec<usize> = turn(batch.groups[g].responses.len()).collect();
        groups.push(Group {
            responses: members.iter().map(|&i| batch.groups[g].responses[i].clone()).collect(),
        });
        order.extend(members.iter().map(|i| starts[g] + i));
    }
    let logps = order.iter().map(|&i| batch.logps[i].clone()).collect();
    (Batch { groups, logps }, order)
}

#[test]
fn permuting_responses_and_groups_permutes_the_gradient() {
    let moved = counter();
    for_every_method(
        80,
        &[],
        || batch().boxed(),
        |configured, batch| {
            let at = batch.evaluate(configured);
            for seed in [0, 1] {
                let (other, order) = permuted(batch, seed);
                let there = other.evaluate(configured);
                let back: Vec<Vec<f64>> = order.iter().map(|&i| at.dlogps[i].clone()).collect();
                assert_close(&back.concat(), &flat(&there), IDENTITY, &describe(configured));
                let scale = flat(&at).iter().map(|g| g.abs()).sum::<f64>() + at.value.abs();
                assert!((at.value - there.value).abs() <= IDENTITY * scale, "{}", describe(configured));
                bump(&moved, order.iter().enumerate().filter(|(a, b)| a != *b).count());
            }
        },
    );
    assert!(moved.get() > 1_000);
}

#[test]
fn on_policy_every_ratio_is_one_and_nothing_is_clipped() {
    let tokens = counter();
    for_every_method(
        80,
        &[],
        || batch().prop_map(Batch::on_policy).boxed(),
        |configured, batch| {
            let m = batch.evaluate(configured).metrics;
            assert_eq!(m.ratio_sum, m.tokens as f64, "{}", describe(configured));
            assert_eq!((m.clipped_low, m.clipped_high, m.saturated), (0, 0, 0));
            assert_eq!((m.log_ratio_max, m.trace_log_ratio_max), (0.0, 0.0));
            let entry = |name| m.entries().into_iter().find(|e| e.0 == name).expect("a metric").1;
            if m.tokens > 0 {
                assert_eq!((entry("ratio_mean"), entry("ratio_max")), (1.0, 1.0));
            }
            assert_eq!((entry("clip_fraction_low"), entry("clip_fraction_high")), (0.0, 0.0));
            bump(&tokens, m.tokens);
        },
    );
    assert!(tokens.get() > 10_000);
}

#[test]
fn micro_batches_add_up_to_the_batch_in_any_order_and_partition() {
    for_every_method(
        60,
        &[],
        || batch().boxed(),
        |configured, batch| {
            let whole = batch.evaluate(configured);
            let credits = configured.method.credit(&batch.groups);
            let responses: Vec<&Response> = batch.responses().collect();
            let n = responses.len();
            for micro in [1, 2, 3, n] {
                let order: Vec<usize> = (0..n).rev().collect();
                let mut gradient = vec![Vec::new(); n];
                let (mut value, mut metrics) = (0.0, Metrics::default());
                for chunk in order.chunks(micro) {
                    let mut part = 0.0;
                    let mut seen = Metrics::default();
                    for &i in chunk {
                        let loss = configured.method.loss(responses[i], &credits[i], &batch.logps[i]);
                        part += loss.value;
                        seen.merge(&loss.metrics);
                        gradient[i] = loss.dlogps;
                    }
                    value += part;
                    metrics.merge(&seen);
                }
                assert_eq!(gradient, whole.dlogps, "credit is fixed once: no share depends on another");
                let scale = flat(&whole).iter().map(|g| g.abs()).sum::<f64>() + whole.value.abs();
                assert!((value - whole.value).abs() <= IDENTITY * scale, "{}", describe(configured));
                let counts = |m: &Metrics| (m.tokens, m.clipped_low, m.clipped_high, m.saturated);
                assert_eq!(counts(&metrics), counts(&whole.metrics));
                assert_eq!(metrics.trace_log_ratio_max, whole.metrics.trace_log_ratio_max);
            }
        },
    );
}

#[test]
fn the_value_is_the_policy_term_plus_the_kl_term() {
    for_every_method(
        60,
        &[],
        || batch().boxed(),
        |configured, batch| {
            let loss = batch.evaluate(configured);
            let (policy, kl) = (loss.metrics.policy_loss, loss.metrics.kl_loss);
            assert!(
                (policy + kl - loss.value).abs() <= IDENTITY * (policy.abs() + kl.abs() + loss.value.abs())
            );
            let without = build(configured.spec, overrides_of(configured), &NO_KL);
            let bare = batch.evaluate(&without);
            assert_eq!(bare.metrics.kl_loss, 0.0);
            assert!((bare.value - policy).abs() <= IDENTITY * policy.abs());
        },
    );
}

fn overrides_of(configured: &Configured) -> Overrides {
    configured.settings.entries().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

/// Log-ratios of 20 nats in every token, in several sign patterns.
fn extreme(len: usize, pattern: usize) -> (Vec<f64>, Vec<f64>) {
    let (rare, sure) = (-20.5, -0.5);
    (0..len)
        .map(|t| {
            let up = match pattern {
                0 => true,
                1 => false,
                2 => t.is_multiple_of(2),
                3 => t < len / 2,
                4 => t >= len / 2,
                _ => (t * t + t / 7).is_multiple_of(3),
            };
            if up { (rare, sure) } else { (sure, rare) }
        })
        .unzip()
}

/// A right and a wrong response of `len` tokens with 20 nats everywhere, and a reference that disagrees with both.
fn extreme_batch(len: usize, pattern: usize) -> Batch {
    let (old, new) = extreme(len, pattern);
    let (tokens, reference) =
        ((0..len as u32).collect::<Vec<_>>(), (0..len).map(|t| -30.0 * (t % 2) as f64).collect());
    let of = |reward: f64| Response {
        tokens: tokens.clone(),
        ref_logps: Some(Clone::clone(&reference)),
        evidence: even_evidence(len),
        ..Response::graded(old.clone(), reward)
    };
    Batch { groups: vec![Group { responses: vec![of(1.0), of(0.0)] }], logps: vec![new; 2] }
}

#[test]
fn every_pair_of_settings_stays_finite_at_20_nats_over_16384_tokens() {
    const LEN: usize = 16_384;
    let batches: Vec<Batch> = (0..6).map(|p| extreme_batch(LEN, p)).collect();
    for &spec in REGISTRY {
        let params = (spec.params)();
        let mut seen = 0;
        let mut saturated = 0;
        for (i, a) in params.iter().enumerate() {
            for b in &params[..i] {
                for (va, vb) in
                    corners(a).iter().flat_map(|va| corners(b).into_iter().map(move |vb| (va.clone(), vb)))
                {
                    let overrides = vec![(a.key.to_owned(), va), (b.key.to_owned(), vb)];
                    // The KL term is on unless the pair is about it; for a trace in front of the loss every third time.
                    let mut forced = vec![];
                    if a.key != "beta" && b.key != "beta" {
                        forced.push(("beta", "0.04"));
                    }
                    if a.key != "update" && b.key != "update" && (seen / batches.len()).is_multiple_of(3) {
                        forced.push(("update", "weight"));
                    }
                    let configured = build(spec, overrides, &forced);
                    let loss = batches[seen % batches.len()].evaluate(&configured);
                    assert!(loss.value.is_finite(), "value\n{}", describe(&configured));
                    assert!(flat(&loss).iter().all(|g| g.is_finite()), "gradient\n{}", describe(&configured));
                    for (name, x) in loss.metrics.entries() {
                        assert!(x.is_finite(), "{name}\n{}", describe(&configured));
                    }
                    // The counter must say so whenever a trace ratio went past the limit upwards; all-up is batch 0.
                    if seen.is_multiple_of(batches.len()) && loss.metrics.trace_log_ratio_max > 20.001 {
                        assert!(loss.metrics.saturated > 0, "{}", describe(&configured));
                        saturated += 1;
                    }
                    seen += 1;
                }
            }
        }
        println!(
            "{}: {seen} pairs of settings finite at the extremes, {saturated} of them saturated",
            spec.name
        );
        assert!(seen > 60, "{}: {seen}", spec.name);
        let accumulates = ACCUMULATE.contains(&spec.name);
        assert_eq!(
            saturated > 0,
            accumulates,
            "{}: only a trace that adds up can exceed 20 nats here",
            spec.name
        );
    }
}

#[test]
fn saturation_is_counted_token_by_token() {
    let up = extreme_batch(100, 0);
    let count = |name: &str, settings: &str, batch: &Batch| {
        batch.evaluate(&parse(name, settings).expect("valid")).metrics.saturated
    };
    // z_0 = 20 is at the limit, all later trace ratios are beyond it, in both responses.
    assert_eq!(count("grpo_lambda", "lambda=0.9", &up), 2 * 99);
    assert_eq!(count("grpo", "", &up), 0);
    let beyond = up.clone().with(|_, _, r| r.old_logps.iter_mut().for_each(|l| *l -= 0.1));
    assert_eq!(count("grpo", "", &beyond), 2 * 100);
    assert_eq!(
        count("grpo_lambda", "lambda=0.9", &extreme_batch(100, 1)),
        0,
        "downwards exp needs no tangent"
    );
}

#[test]
fn a_runaway_ratio_with_a_negative_advantage_is_still_pulled_back() {
    for settings in
        ["lambda=1 clamp=none", "lambda=0.99 style=both clamp=none", "lambda=0.9 clip=none clamp=none"]
    {
        let loss = extreme_batch(1_000, 0).evaluate(&parse("grpo_lambda", settings).expect("valid"));
        assert!(
            loss.dlogps[1].iter().all(|&g| g > 0.0),
            "{settings}: descent lowers these log-probabilities"
        );
    }
}

#[test]
fn a_response_without_a_reward_changes_nothing_but_the_count_of_tokens() {
    let compared = counter();
    for_every_method(
        100,
        &[("mask_truncated", "false")],
        || batch().boxed(),
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
    for_every_method(
        80,
        &NO_KL,
        || batch().boxed(),
        |configured, batch| {
            let loss = batch.evaluate(configured);
            for (i, _) in batch.responses().enumerate().filter(|(_, r)| r.reward.is_none()) {
                assert!(loss.dlogps[i].iter().all(|&g| g == 0.0), "{}", describe(configured));
                bump(&seen, 1);
            }
            assert_eq!(loss.metrics.ungraded, batch.responses().filter(|r| r.reward.is_none()).count());
        },
    );
    assert!(seen.get() > 100, "{}", seen.get());
}

#[test]
fn masked_truncated_responses_get_no_gradient_and_the_others_keep_theirs() {
    let (masked, kept) = (counter(), counter());
    for_every_method(
        80,
        &MASKED,
        || batch().boxed(),
        |configured, batch| {
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
        },
    );
    assert!(masked.get() > 100 && kept.get() > 500, "{} {}", masked.get(), kept.get());
}

#[test]
fn masked_responses_may_hold_anything_be_it_no_number() {
    let spoilt = counter();
    for_every_method(
        80,
        &[("mask_truncated", "true")],
        || batch().boxed(),
        |configured, batch| {
            if !has(configured.spec, "mask_truncated") {
                return;
            }
            let mut garbage = batch.clone().with(|_, _, r| {
                if r.truncated {
                    let len = r.len();
                    r.old_logps = vec![f64::NAN; len];
                    r.ref_logps = Some(vec![f64::NAN; len]);
                    let scored = r.evidence.shifts.as_ref().map_or(0, Vec::len);
                    let row = |n| Some(vec![f64::NAN; n]);
                    let evidence = &mut r.evidence;
                    (evidence.entropies, evidence.values) = (row(len), row(len));
                    (evidence.collisions, evidence.teacher_logps) = (row(len), row(len));
                    (evidence.shifts, evidence.saliencies) = (row(scored), row(scored));
                    evidence.steps.iter_mut().flatten().for_each(|s| s.value = f64::NAN);
                    evidence.hidden.iter_mut().flatten().flatten().for_each(|x| *x = f64::NAN);
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
                let e = &mut r.evidence;
                let rows = [
                    &mut r.ref_logps,
                    &mut e.entropies,
                    &mut e.values,
                    &mut e.collisions,
                    &mut e.teacher_logps,
                ];
                rows.into_iter().flatten().for_each(|row| pass(row, &masks[i]));
                r.tokens = padded::compress(&padded::scatter(&r.tokens, &masks[i], u32::MAX), &masks[i]);
                if let Some(states) = &mut r.evidence.hidden {
                    *states =
                        padded::compress(&padded::scatter(states, &masks[i], vec![f64::NAN; 2]), &masks[i]);
                }
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

#[test]
fn the_weights_of_a_batch_add_up_as_its_reduction_says() {
    for_every_method(
        40,
        &[("mask_truncated", "false"), ("drop_sure", "false")],
        || batch().boxed(),
        |configured, batch| {
            if !has(configured.spec, "reduction") {
                return;
            }
            let credit = configured.method.credit(&batch.groups);
            let total: f64 = credit.iter().flat_map(|c| &c.weights).sum();
            let per_response = batch.tokens() as f64 / credit.len() as f64;
            let want = match configured.settings.word("reduction") {
                "token_mean" | "group_token_mean" | "response_mean" => 1.0,
                "response_sum" => per_response,
                "constant" => per_response / configured.settings.number("max_length"),
                other => panic!("reduction {other} has no expected mass here"),
            };
            assert_within(&[total], &[want], IDENTITY, want, &describe(configured));
        },
    );
}

#[test]
fn generated_batches_are_ragged_and_reach_every_kind_of_response() {
    let (lengths, none, cut, moved) = (Cell::new((usize::MAX, 0)), counter(), counter(), counter());
    check(100, batch(), |batch| {
        for (r, logps) in batch.responses().zip(&batch.logps) {
            lengths.set((lengths.get().0.min(r.len()), lengths.get().1.max(r.len())));
            bump(&none, usize::from(r.reward.is_none()));
            bump(&cut, usize::from(r.truncated));
            bump(&moved, usize::from(*logps != r.old_logps));
            assert!(logps.iter().all(|&l| l <= 0.0));
        }
    });
    assert_eq!(lengths.get(), (1, 40));
    assert!(none.get() > 20 && cut.get() > 50 && moved.get() > 300);
}

#[test]
#[should_panic(expected = "one row of log-probabilities per response")]
fn a_batch_with_a_row_of_log_probs_missing_is_refused() {
    let mut batch = extreme_batch(3, 0);
    batch.logps.pop();
    batch.evaluate(&parse("grpo", "").expect("defaults are valid"));
}
