//! The recorded runs on addition: of the protocols' arms, rates and seeds, each once, and complete where a finding is
//! drawn from them.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use crate::{protocol, rows};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Protocol {
    rates: Vec<f64>,
    selection: Vec<u64>,
    evaluation: Vec<u64>,
    arms: Vec<Arm>,
}

#[derive(Deserialize)]
struct Arm {
    method: String,
    #[serde(default)]
    settings: String,
}

/// The runs of an arm at a rate: seeds in order.
fn runs(name: &str) -> BTreeMap<(String, String), Vec<u64>> {
    #[derive(Deserialize)]
    struct Run {
        arm: String,
        rate: String,
        seed: u64,
    }
    let mut found: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for run in rows::<Run>(&format!("addition_{name}_runs.csv")) {
        found.entry((run.arm, run.rate)).or_default().push(run.seed);
    }
    found
}

#[test]
fn every_run_is_of_its_protocol_and_there_once() {
    for name in ["systematic", "long_budget", "kl"] {
        let protocol: Protocol = protocol(name);
        let arms: Vec<String> =
            protocol.arms.iter().map(|a| format!("{} {}", a.method, a.settings).trim().to_owned()).collect();
        for ((arm, rate), seeds) in runs(name) {
            assert!(
                arms.contains(&arm) && protocol.rates.contains(&rate.parse().unwrap()),
                "{name}: {arm}, {rate}"
            );
            assert!(seeds.is_sorted_by(|a, b| a < b), "{name}, {arm}: {seeds:?}");
            let known = |s: &u64| protocol.selection.contains(s) || protocol.evaluation.contains(s);
            assert!(seeds.iter().all(known), "{name}, {arm}: {seeds:?}");
        }
    }
}

#[test]
fn finished_protocols_have_all_evaluation_seeds_of_every_arm_at_one_rate() {
    for name in ["systematic", "kl"] {
        let protocol: Protocol = protocol(name);
        let runs = runs(name);
        for arm in &protocol.arms {
            let own = format!("{} {}", arm.method, arm.settings);
            let seeds = runs.iter().filter(|((arm, _), _)| arm == own.trim()).map(|(_, seeds)| {
                seeds.iter().copied().filter(|s| protocol.evaluation.contains(s)).collect::<Vec<_>>()
            });
            let evaluated: Vec<Vec<u64>> = seeds.filter(|s| !s.is_empty()).collect();
            assert_eq!(evaluated, std::slice::from_ref(&protocol.evaluation), "{name}, {own}");
        }
    }
}

#[test]
fn variances_are_of_48_seeds_over_rloo_s_own() {
    #[derive(Deserialize)]
    struct Variance {
        method: String,
        weights: String,
        over_rloo: f64,
    }
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for row in rows::<Variance>("addition_systematic_variance.csv") {
        assert!(row.method != "rloo" || row.over_rloo == 1.0);
        *counts.entry((row.method, row.weights)).or_default() += 1;
    }
    assert!(counts.values().all(|n| *n == 48) && counts.len() == 16, "{counts:?}");
}
