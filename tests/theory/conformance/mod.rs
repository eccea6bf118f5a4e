//! Claim `conformance`: what every registered method must satisfy, whatever its settings.
//!
//! A new method is tested by its line in the registry.

mod extremes;
mod gradient;
mod left_out;
mod symmetries;

use crate::strategies::{Overrides, batch, build, check, for_every_method_on};
use grpo_lambda::methods::{BatchLoss, Configured, REGISTRY};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// No KL term: what remains is the policy gradient.
const NO_KL: [(&str, &str); 1] = [("beta", "0")];

/// Nothing but the outcome: no KL term, in the loss or the reward, no pull to the old policy and no penalty of long responses.
const OUTCOME_ONLY: [(&str, &str); 5] = [
    ("beta", "0"),
    ("reward_beta", "0"),
    ("pull", "0"),
    ("overlong_limit", "none"),
    ("negative_weight", "0"),
];

/// Sets of one response each, so that a response's place in its group means nothing. `sampler` tests what larger sets change.
const SINGLE_SETS: (&str, &str) = ("sets", "100");

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

fn describe(configured: &Configured) -> String {
    let entries: Vec<_> = configured.settings.entries().map(|(k, v)| format!("{k}={v}")).collect();
    format!("{} {}", configured.spec.name, entries.join(" "))
}

fn overrides_of(configured: &Configured) -> Overrides {
    configured.settings.entries().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
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
    let teaching = RefCell::new(BTreeSet::new());
    for_every_method_on(100, &OUTCOME_ONLY, one_group, |configured, batch| {
        // A critic and a discount teach on their own; where rewards and extra inputs are 0 they do not either.
        let batch = match configured.method.compares_rewards() {
            true => batch.clone(),
            false => {
                let teaches = flat(&batch.evaluate(configured)).iter().any(|&g| g != 0.0);
                teaching.borrow_mut().extend(teaches.then_some(configured.spec.name));
                batch.clone().with(|_, _, r| {
                    r.reward = r.reward.map(|_| 0.0);
                    r.extra_inputs = r.extra_inputs.filled(r.len(), 0.0);
                    // A teacher teaches on its own unless it agrees.
                    r.extra_inputs.teacher_logps =
                        r.extra_inputs.teacher_logps.take().map(|_| r.old_logps.clone());
                })
            }
        };
        let loss = batch.evaluate(configured);
        assert!(flat(&loss).iter().all(|&g| g == 0.0), "{}", describe(configured));
        assert_eq!(loss.value, 0.0);
        assert_eq!((loss.metrics.groups, loss.metrics.zero_variance_groups), (1, 1));
    });
    for spec in REGISTRY {
        let compares = build(spec, Overrides::new(), &OUTCOME_ONLY).method.compares_rewards();
        assert!(compares || teaching.borrow().contains(spec.name), "{} teaches nothing either", spec.name);
    }
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
