//! Log-ratios of 20 nats: every number stays finite, and a runaway ratio keeps its gradient.

use super::{describe, flat};
use crate::long;
use crate::strategies::{Batch, build, corners, even_inputs};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Configured, MethodSpec, REGISTRY, parse};
use rayon::prelude::*;

/// Methods with a trace that adds up log-ratios without dividing by its mass.
const ACCUMULATE: [&str; 4] = ["grpo_lambda", "p_trace_reconstructed", "s_trace_reconstructed", "rloo"];

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
    let response = |reward: f64| Response {
        tokens: tokens.clone(),
        ref_logps: Some(Clone::clone(&reference)),
        extra_inputs: even_inputs(len),
        ..Response::graded(old.clone(), reward)
    };
    Batch { groups: vec![Group { responses: vec![response(1.0), response(0.0)] }], logps: vec![new; 2] }
}

#[test]
fn every_pair_of_settings_stays_finite_at_20_nats_however_long_the_response() {
    let len = long::of(1_024, 16_384);
    let batches: Vec<Batch> = (0..6).map(|p| extreme_batch(len, p)).collect();
    REGISTRY.par_iter().for_each(|spec| {
        let (mut seen, mut saturated) = (0, 0);
        for configured in pairs(spec, batches.len()) {
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
    });
}

/// Masked rows reach a method so: without tokens, with a reward. `delta=terminal` and its like have no last token to write to.
#[test]
fn a_response_without_a_token_leaves_every_pair_of_settings_finite() {
    let mut batch = extreme_batch(6, 2);
    let mut empty = Response { extra_inputs: even_inputs(0), ..Response::graded(Vec::new(), 1.0) };
    empty.extra_inputs.reward_parts = batch.groups[0].responses[0].extra_inputs.reward_parts.clone();
    batch.groups[0].responses.insert(1, empty);
    batch.logps.insert(1, Vec::new());
    REGISTRY.par_iter().for_each(|spec| {
        for configured in pairs(spec, 1) {
            let loss = batch.evaluate(&configured);
            assert!(loss.value.is_finite() && loss.dlogps[1].is_empty(), "value\n{}", describe(&configured));
            assert!(flat(&loss).iter().all(|g| g.is_finite()), "gradient\n{}", describe(&configured));
            let method = configured.method.as_ref();
            let credit = method.credit(&batch.groups);
            assert!(method.token_losses(&batch.groups[0].responses[1], &credit[1], &[]).is_empty());
        }
    });
}

/// A method under every pair of extreme values of two of its settings, for batches that are taken in turn.
fn pairs(spec: &'static MethodSpec, batches: usize) -> impl Iterator<Item = Configured> {
    let params = (spec.params)();
    let mut corner_pairs = Vec::new();
    for (i, a) in params.iter().enumerate() {
        for b in &params[..i] {
            for va in corners(a) {
                let with = |vb| [(a.key, va.clone()), (b.key, vb)];
                corner_pairs.extend(corners(b).into_iter().map(with));
            }
        }
    }
    corner_pairs.into_iter().enumerate().map(move |(seen, pair)| {
        let free = |key: &str| pair.iter().all(|(own, _)| *own != key);
        // The KL term is on unless the pair is about it; for a trace in front of the loss every third time.
        let mut forced = vec![];
        if free("beta") {
            forced.push(("beta", "0.04"));
        }
        if free("update") && (seen / batches).is_multiple_of(3) {
            forced.push(("update", "weight"));
        }
        build(spec, pair.map(|(key, value)| (key.to_owned(), value)).to_vec(), &forced)
    })
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
#[should_panic(expected = "one row of log-probabilities per response")]
fn a_batch_with_a_row_of_log_probs_missing_is_refused() {
    let mut batch = extreme_batch(3, 0);
    batch.logps.pop();
    batch.evaluate(&parse("grpo", "").expect("defaults are valid"));
}
