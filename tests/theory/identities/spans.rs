//! SHEAR: weights from the distance of hidden states, never below 0 and only where outcomes differ.

use super::{CASES, equal_on, method, times};
use crate::strategies::{Batch, batch, check};
use crate::tolerance::{IDENTITY, assert_within};
use grpo_lambda::assignment::Sinkhorn;
use grpo_lambda::group::Response;
use proptest::prelude::*;
use std::cell::Cell;

#[test]
fn the_weights_of_shear_are_not_negative_and_keep_the_sign_of_the_outcome() {
    let (shear, grpo) = (method("shear window=8 stride=3"), method("grpo reduction=token_mean"));
    let positive = Cell::new(0);
    check(CASES, batch(), |batch| {
        let (a, b) = (batch.evaluate(&shear).advantages.concat(), batch.evaluate(&grpo).advantages.concat());
        for (a, b) in a.iter().zip(&b) {
            assert!(a * b >= 0.0 && (*b != 0.0 || *a == 0.0), "{a} for {b}");
            positive.set(positive.get() + usize::from(a * b > 0.0));
        }
    });
    assert!(positive.get() > 1_000, "{}", positive.get());
}

/// States all responses have at distance 1 from one another within a group: unit norm, so every weight is their distance.
fn apart() -> impl Strategy<Value = Batch> {
    batch().prop_map(|b| {
        b.with(|i, _, r| {
            let mut state = vec![0.0; 16];
            state[i] = 1.0;
            r.extra_inputs.hidden = Some(vec![state; r.len()]);
        })
    })
}

#[test]
fn shear_with_constant_states_at_equal_distances_is_grpo_times_that_distance_over_the_norm() {
    let shear = method("shear window=5 stride=2 clip=none");
    let grpo = method("grpo reduction=token_mean clip=none");
    check(CASES, apart(), |batch| {
        let (a, b) = (batch.evaluate(&shear).dlogps.concat(), batch.evaluate(&grpo).dlogps.concat());
        assert_within(&a, &times(2f64.sqrt(), &b), IDENTITY, 10.0, "sqrt 2");
    });
}

#[test]
fn a_window_as_long_as_the_response_gives_every_token_one_weight_and_no_unit_or_shift_of_time_enters() {
    let in_unit = |b: Batch, unit: f64| {
        b.with(|_, _, r| r.extra_inputs.hidden.iter_mut().flatten().flatten().for_each(|x| *x *= unit))
    };
    let (whole, other) = (method("shear window=40"), method("shear window=90 stride=7"));
    check(CASES, batch(), |batch| {
        let (a, b) = (batch.evaluate(&whole).advantages, batch.evaluate(&other).advantages);
        for (a, b) in a.iter().zip(&b) {
            assert!(a.iter().all(|x| *x == a[0]));
            assert_eq!(a, b, "a stride past the end changes nothing");
        }
    });
    check(CASES, batch(), |plain| {
        let advantages = |b: &Batch| b.evaluate(&whole).advantages.concat();
        let (a, b) = (advantages(&plain), advantages(&in_unit(plain.clone(), 3.0)));
        assert_within(&a, &b, 1e-6, 10.0, "the mean norm divides the unit out");
    });
}

#[test]
fn equal_states_leave_shear_nothing_to_weigh() {
    let equal = || {
        batch().prop_map(|b| b.with(|_, _, r| r.extra_inputs.hidden = Some(vec![vec![0.3, -0.2]; r.len()])))
    };
    let shear = method("shear window=4 stride=2");
    check(CASES, equal(), |batch| {
        assert!(batch.evaluate(&shear).advantages.concat().iter().all(|a| *a == 0.0))
    });
}

/// A response of as many tokens as states.
fn in_states(states: Vec<Vec<f64>>, reward: f64) -> Response {
    let mut response = Response::graded(vec![-0.7; states.len()], reward);
    response.extra_inputs.hidden = Some(states);
    response
}

/// A right and a wrong response that have the same states up to `at`, and lie 4 apart from there on.
fn planted(at: usize, len: usize) -> Batch {
    let states = |sign: f64| -> Vec<Vec<f64>> {
        let common = |t: usize| vec![(t as f64 * 0.7).sin(), (t as f64 * 0.3).cos()];
        (0..len)
            .map(|t| if t < at { common(t) } else { common(t).into_iter().map(|x| x + 2.0 * sign).collect() })
            .collect()
    };
    Batch::alone(vec![in_states(states(1.0), 1.0), in_states(states(-1.0), 0.0)])
}

#[test]
fn shear_finds_a_planted_point_of_divergence() {
    for (at, len) in [(30, 60), (12, 60), (48, 60)] {
        let batch = planted(at, len);
        let a = batch.evaluate(&method("shear window=6 stride=1 scale=none")).advantages;
        for (row, sign) in a.iter().zip([1.0, -1.0]) {
            let weight: Vec<f64> = row.iter().map(|a| a * sign).collect();
            // Windows that end before the point have their counterpart in the other response; those after it have none.
            let (before, after) = (&weight[..at - 6], &weight[at + 6..]);
            let highest = before.iter().copied().fold(0.0, f64::max);
            let lowest = after.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(lowest > 3.0 * highest, "{at}: {highest} before, {lowest} after");
        }
    }
}

#[test]
fn the_spans_of_shear_by_hand() {
    // One number a state, windows of one token: d is the distance to the nearest state of the other side.
    let points = |x: &[f64]| x.iter().map(|x| vec![*x]).collect::<Vec<_>>();
    let batch = |right: &[f64], wrong: &[f64]| {
        Batch::alone(vec![in_states(points(right), 1.0), in_states(points(wrong), 0.0)])
    };
    let single = batch(&[1.0, 2.0, 6.0], &[1.0, 4.0]);
    let mean = (1.0 + 2.0 + 6.0 + 1.0 + 4.0) / 5.0;
    let a = single.evaluate(&method("shear window=1 stride=1 scale=none")).advantages;
    assert_within(&a[0], &[0.0, 0.5 * 1.0 / mean, 0.5 * 2.0 / mean], IDENTITY, 1.0, "right");
    assert_within(&a[1], &[0.0, -0.5 * 2.0 / mean], IDENTITY, 1.0, "wrong");
    // Windows of two tokens every two: the last one is cut off at the end; a stride of three skips every third token.
    let sharp = "scale=none regularisation=0.02 sinkhorn_steps=200";
    let a = single.evaluate(&method(&format!("shear window=2 stride=2 {sharp}"))).advantages;
    let w = |a: &[f64], b: &[f64]| Sinkhorn { regularisation: 0.02, steps: 200 }.cost(&points(a), &points(b));
    let (first, last) = (w(&[1.0, 2.0], &[1.0, 4.0]), w(&[6.0], &[1.0, 4.0]));
    assert!((first - 1.0).abs() < 1e-2 && (last - 3.5).abs() < 1e-9);
    assert_within(&a[0], &[first, first, last].map(|d| 0.5 * d / mean), IDENTITY, 1.0, "pairs");
    let long = batch(&[1.0, 2.0, 6.0, 8.0], &[0.0]);
    let a = long.evaluate(&method("shear window=1 stride=3 scale=none")).advantages;
    assert!(a[0][1] == 0.0 && a[0][2] == 0.0 && a[0][0] > 0.0 && a[0][3] > 0.0);
}

#[test]
fn shear_with_opposite_states_of_unit_norm_is_grpo_times_two_whatever_the_windows() {
    // With windows of one token and all states opposite (+1 against -1) the weight is 2 everywhere.
    let opposite = || {
        batch().prop_map(|b| {
            let means: Vec<f64> = b
                .groups
                .iter()
                .map(|g| {
                    let known: Vec<f64> = g.responses.iter().filter_map(|r| r.reward).collect();
                    known.iter().sum::<f64>() / known.len().max(1) as f64
                })
                .collect();
            b.with(|_, g, r| {
                let side = if r.reward.is_some_and(|x| x > means[g]) { 1.0 } else { -1.0 };
                r.extra_inputs.hidden = Some(vec![vec![side]; r.len()]);
            })
        })
    };
    equal_on(opposite(), "shear window=1 stride=1 scale=none", "shear window=3 stride=2 scale=none");
    let (shear, grpo) = (method("shear scale=none"), method("grpo scale=none reduction=token_mean"));
    check(CASES, opposite(), |batch| {
        let (a, b) = (batch.evaluate(&shear).advantages.concat(), batch.evaluate(&grpo).advantages.concat());
        assert_within(&a, &times(2.0, &b), IDENTITY, 10.0, "twice");
    });
}
