//! TEMPO and the prefix tree of a group.

use super::{CASES, ending_apart, equal_on, method, times};
use crate::strategies::{Batch, batch, check, graded, worded};
use crate::tolerance::{IDENTITY, assert_close, assert_within};
use grpo_lambda::assignment::PrefixTree;
use proptest::prelude::*;
use std::cell::Cell;

#[test]
fn prefix_values_are_means_over_the_responses_that_share_the_prefix() {
    // Against the definition, O(G^2 T); identical responses and responses that end inside others included.
    let response = (prop::collection::vec(0u32..3, 1..8), -2.0..2.0f64);
    let shared = Cell::new(0);
    check(4 * CASES, prop::collection::vec(response, 1..9), |responses| {
        let input: Vec<(&[u32], f64)> = responses.iter().map(|(t, r)| (t.as_slice(), *r)).collect();
        let tree = PrefixTree::new(&input);
        for (i, (tokens, _)) in input.iter().enumerate() {
            let value = |u: usize| {
                let sharing = input.iter().filter(|(other, _)| other.starts_with(&tokens[..u]));
                let rewards: Vec<f64> = sharing.map(|(_, r)| *r).collect();
                shared.set(shared.get() + usize::from(u > 0 && rewards.len() > 1));
                rewards.iter().sum::<f64>() / rewards.len() as f64
            };
            let want: Vec<f64> = (0..=tokens.len()).map(value).collect();
            assert_within(tree.values(i), &want, IDENTITY, 2.0, "values");
            // And the continuations at each place where responses part.
            let parts = |t: usize| {
                let mut next: Vec<u32> = input
                    .iter()
                    .filter(|(other, _)| other.len() > t && other.starts_with(&tokens[..t]))
                    .map(|(other, _)| other[t])
                    .collect();
                next.sort_unstable();
                next.dedup();
                next.len()
            };
            let places: Vec<(usize, usize)> =
                (0..tokens.len()).map(|t| (t, parts(t))).filter(|(_, n)| *n > 1).collect();
            let found: Vec<(usize, usize)> =
                tree.siblings(i).iter().map(|s| (s.token, s.values.len())).collect();
            assert_eq!(found, places);
        }
    });
    assert!(shared.get() > 1_000);
}

/// The batch with every group's responses made copies of its first, up to rewards.
fn without_branches() -> impl Strategy<Value = Batch> {
    graded().prop_map(|mut b| {
        let places: Vec<_> = b.members().collect();
        for (group, members) in b.groups.iter_mut().zip(places) {
            let logps = b.logps[members.start].clone();
            b.logps[members].fill(logps);
            let first = group.responses[0].clone();
            group.responses.fill(first);
        }
        b.with(|i, _, r| r.reward = Some(f64::from(i % 3 == 0) + 0.1 * i as f64))
    })
}

#[test]
fn where_no_response_parts_from_the_others_tempo_is_grpo() {
    for scale in ["group", "none", "batch"] {
        let grpo = format!("grpo scale={scale} std_preset=verl reduction=token_mean epsilon_high=0.28");
        equal_on(without_branches(), &format!("tempo scale={scale}"), &grpo);
    }
}

#[test]
fn where_all_part_at_the_root_tempo_is_grpo_with_the_first_token_counted_twice() {
    // The prompt is a branch like any other: V goes from the mean to the response's own reward.
    let apart = || graded().prop_map(|b| b.with(|i, _, r| r.tokens[0] = i as u32));
    let (tempo, grpo) =
        (method("tempo"), method("grpo std_preset=verl reduction=token_mean epsilon_high=0.28"));
    check(CASES, apart(), |batch| {
        let (a, b) = (batch.evaluate(&tempo), batch.evaluate(&grpo));
        for (a, b) in a.advantages.iter().zip(&b.advantages) {
            let mut want = b.clone();
            want[0] *= 2.0;
            assert_close(a, &want, IDENTITY, "advantages");
        }
    });
}

#[test]
fn tempo_at_tokens_that_are_no_branch_has_the_advantage_of_grpo() {
    let (tempo, grpo) = (method("tempo"), method("grpo std_preset=verl"));
    let (branches, others) = (Cell::new(0), Cell::new(0));
    check(CASES, batch(), |batch| {
        let (a, b) = (batch.evaluate(&tempo).advantages, batch.evaluate(&grpo).advantages);
        for (group, members) in batch.groups.iter().zip(batch.members()) {
            let graded = || group.responses.iter().zip(members.clone()).filter(|(r, _)| r.reward.is_some());
            for (r, flat) in graded() {
                let sharing =
                    |n: usize| graded().filter(|(o, _)| o.tokens.starts_with(&r.tokens[..n])).count();
                for t in 0..r.len() {
                    if sharing(t) == sharing(t + 1) {
                        assert_eq!(a[flat][t], b[flat][t]);
                        others.set(others.get() + 1);
                    } else {
                        branches.set(branches.get() + 1);
                    }
                }
            }
        }
    });
    assert!(branches.get() > 500 && others.get() > 1_000, "{} {}", branches.get(), others.get());
}

#[test]
fn the_differences_of_tempo_telescope_to_one_more_outcome() {
    let (tempo, grpo) = (method("tempo"), method("grpo std_preset=verl"));
    check(CASES, ending_apart(), |batch| {
        let (a, b) = (batch.evaluate(&tempo).advantages, batch.evaluate(&grpo).advantages);
        for (a, b) in a.iter().zip(&b) {
            let sum: f64 = a.iter().sum();
            let want = b[0] * (b.len() as f64 + 1.0);
            assert!((sum - want).abs() < 1e2 * IDENTITY * (1.0 + want.abs()), "{sum} {want}");
        }
    });
}

#[test]
fn tempo_by_hand() {
    // Tokens a b / a c / d: rewards 1, 0, 0. V(root) = 1/3, V(a) = 1/2.
    let batch = Batch::alone(vec![worded(&[0, 1], 1.0), worded(&[0, 2], 0.0), worded(&[3], 0.0)]);
    let a = batch.evaluate(&method("tempo scale=none")).advantages.concat();
    let sixths = [4.0 + 1.0, 4.0 + 3.0, -2.0 + 1.0, -2.0 - 3.0, -2.0 - 2.0];
    assert_within(&a, &times(1.0 / 6.0, &sixths), IDENTITY, 1.0, "advantages");
    // std = sqrt(1/3) with Bessel's correction.
    let scaled = batch.evaluate(&method("tempo")).advantages.concat();
    let divisor = (1.0f64 / 3.0).sqrt() + 1e-6;
    assert_within(&scaled, &times(1.0 / (6.0 * divisor), &sixths), IDENTITY, 2.0, "scaled");
}
