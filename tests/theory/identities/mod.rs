//! Claim `identities`: what reduces to what. Each name is the statement; random batches unless the statement is about fixed numbers.

mod baselines;
mod clamp;
mod clip_variants;
mod clips;
mod delta;
mod ends;
mod kl;
mod partial_traces;
mod prefix_tree;
mod reductions;
mod sequence;
mod spans;
mod token_credit;
mod weights;
mod whitening;

use crate::strategies::{Batch, batch, check, graded, on_policy};
use crate::tolerance::{IDENTITY, assert_close, assert_within, size};
use grpo_lambda::advantage::OutcomeAdvantage;
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{BatchLoss, Configured, parse};
use proptest::prelude::*;
use std::cell::Cell;

const CASES: u32 = 60;

/// A method from `name key=value ..`.
fn method(words: &str) -> Configured {
    let (name, settings) = words.split_once(' ').unwrap_or((words, ""));
    parse(name, settings).unwrap_or_else(|error| panic!("{words}: {error}"))
}

/// The batch with as many digits as a comparison of its loss can have: the size of the terms that were added up.
fn magnitude(loss: &BatchLoss) -> f64 {
    loss.dlogps.iter().flatten().map(|g| g.abs()).sum::<f64>() + loss.value.abs()
}

#[track_caller]
fn assert_same_gradient(left: &BatchLoss, right: &BatchLoss, what: &str) {
    assert_close(&left.dlogps.concat(), &right.dlogps.concat(), IDENTITY, what);
}

#[track_caller]
fn assert_same(left: &BatchLoss, right: &BatchLoss, what: &str) {
    assert_same_gradient(left, right, what);
    let scale = magnitude(left).max(magnitude(right));
    assert_within(&[left.value], &[right.value], IDENTITY, scale, what);
}

/// Two methods have the same loss and gradient on these batches, most of which teach something.
fn equal_on<S: Strategy<Value = Batch>>(batches: S, left: &str, right: &str) {
    agree_on(batches, left, right, assert_same);
}

/// Two methods agree as `assert_agree` says on these batches, most of which teach something.
fn agree_on<S: Strategy<Value = Batch>>(
    batches: S,
    left: &str,
    right: &str,
    assert_agree: fn(&BatchLoss, &BatchLoss, &str),
) {
    let taught = Cell::new(0);
    let (l, r) = (method(left), method(right));
    check(CASES, batches, |batch| {
        let (a, b) = (batch.evaluate(&l), batch.evaluate(&r));
        assert_agree(&a, &b, &format!("{left} = {right}"));
        taught.set(taught.get() + u32::from(size(&a.dlogps.concat()) > 1e-9));
    });
    assert!(taught.get() * 2 > CASES, "{left} = {right}: only {} of {CASES} batches teach", taught.get());
}

/// The first group alone, of one right response.
fn one_group(mut batch: Batch) -> Batch {
    batch.groups.truncate(1);
    batch.logps.truncate(batch.groups[0].responses.len());
    batch.with(|i, _, r| r.reward = Some(f64::from(i == 0)))
}

/// Responses cut to so many tokens.
fn cut(mut batch: Batch, len: usize) -> Batch {
    batch.logps.iter_mut().for_each(|l| l.truncate(len));
    batch.with(|_, _, r| {
        r.tokens.truncate(len);
        r.old_logps.truncate(len);
        r.ref_logps.as_mut().expect("generated").truncate(len);
    })
}

/// Responses cut to the length of the shortest.
fn even(batch: Batch) -> Batch {
    let len = batch.responses().map(Response::len).min().expect("a response");
    cut(batch, len)
}

/// The random batches that a line of the table names.
fn named(batches: &str) -> BoxedStrategy<Batch> {
    match batches {
        "" => batch().boxed(),
        "graded" => graded().boxed(),
        "on-policy" => on_policy().boxed(),
        "one group" => batch().prop_map(one_group).boxed(),
        "one token" => batch().prop_map(|b| cut(b, 1)).boxed(),
        "equal lengths" => batch().prop_map(even).boxed(),
        "one group of equal lengths" => batch().prop_map(|b| even(one_group(b))).boxed(),
        "finished" => batch().prop_map(|b| b.with(|_, _, r| r.truncated = false)).boxed(),
        other => panic!("no batches are called {other}"),
    }
}

/// Each line of `equal.txt`: `==` for the same loss and gradient, `~=` for the same gradient, `!=` for another gradient on most batches.
#[test]
fn what_the_table_calls_equal_is_equal_and_what_it_tells_apart_is_not() {
    for line in include_str!("equal.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (batches, pair) = line.split_once(": ").unwrap_or(("", line));
        let signs = [" == ", " ~= ", " != "].map(|sign| pair.split_once(sign));
        match signs {
            [Some((left, right)), ..] => equal_on(named(batches), left, right),
            [_, Some((left, right)), _] => agree_on(named(batches), left, right, assert_same_gradient),
            [.., Some((left, right))] => {
                let apart = differ_on(named(batches), left, right);
                assert!(apart > CASES / 2, "{line}: on {apart} of {CASES}");
            }
            _ => panic!("{line}: no pair"),
        }
    }
}

/// Graded batches in which every response ends with a token of its own.
fn ending_apart() -> impl Strategy<Value = Batch> {
    graded().prop_map(|b| {
        b.with(|i, _, r| {
            let last = r.len() - 1;
            r.tokens[last] = 100 + i as u32;
        })
    })
}

/// Number of random batches that tell the two apart.
fn differ_on<S: Strategy<Value = Batch>>(batches: S, left: &str, right: &str) -> u32 {
    let differ = Cell::new(0);
    let (l, r) = (method(left), method(right));
    check(CASES, batches, |batch| {
        let (a, b) = (batch.evaluate(&l).dlogps.concat(), batch.evaluate(&r).dlogps.concat());
        let scale = size(a.iter().chain(&b));
        let off = a.iter().zip(&b).any(|(a, b)| (a - b).abs() > 1e-6 * scale);
        differ.set(differ.get() + u32::from(off));
    });
    differ.get()
}

/// The advantage of every response, before it is spread over tokens.
fn outcomes(outcome: OutcomeAdvantage, batch: &Batch) -> Vec<Vec<f64>> {
    outcome.of_batch(&batch.groups.iter().map(Group::rewards).collect::<Vec<_>>())
}

/// `[x0, x1, ..]` times something.
fn times(factor: f64, values: &[f64]) -> Vec<f64> {
    values.iter().map(|x| factor * x).collect()
}
