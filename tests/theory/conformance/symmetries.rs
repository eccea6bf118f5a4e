//! Symmetries: the order of responses and groups, the partition into micro-batches; and what adds up.

use super::{NO_KL, SINGLE_SETS, bump, counter, describe, flat, overrides_of};
use crate::strategies::{Batch, batch, build, for_every_method, for_every_method_on, has};
use crate::tolerance::{IDENTITY, assert_close, assert_within};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::metrics::Metrics;
use proptest::prelude::*;

/// A batch with its groups, and the responses within each, in another order; and where each response went.
fn permuted(batch: &Batch, seed: usize) -> (Batch, Vec<usize>) {
    let turn = |n: usize| (0..n).map(move |i| (n - 1 - i + seed) % n); // a rotated reversal: no fixed order survives
    let starts: Vec<usize> = batch.members().map(|members| members.start).collect();
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
    for_every_method(80, &[SINGLE_SETS], |configured, batch| {
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
    });
    assert!(moved.get() > 1_000);
}

#[test]
fn on_policy_every_ratio_is_one_and_nothing_is_clipped() {
    let tokens = counter();
    for_every_method_on(
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
    for_every_method(60, &[], |configured, batch| {
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
    });
}

#[test]
fn the_value_is_the_policy_term_plus_the_kl_term() {
    for_every_method(60, &[], |configured, batch| {
        let loss = batch.evaluate(configured);
        let (policy, kl) = (loss.metrics.policy_loss, loss.metrics.kl_loss);
        assert!((policy + kl - loss.value).abs() <= IDENTITY * (policy.abs() + kl.abs() + loss.value.abs()));
        let without = build(configured.spec, overrides_of(configured), &NO_KL);
        let bare = batch.evaluate(&without);
        assert_eq!(bare.metrics.kl_loss, 0.0);
        assert!((bare.value - policy).abs() <= IDENTITY * policy.abs());
    });
}

#[test]
fn the_weights_of_a_batch_add_up_as_its_reduction_says() {
    let all_count =
        [("mask_truncated", "false"), ("drop_sure", "false"), ("reject", "none"), ("rejected", "stay")];
    for_every_method(40, &all_count, |configured, batch| {
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
    });
}
