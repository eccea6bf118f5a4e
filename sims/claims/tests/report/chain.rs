//! The recorded runs on chains: of the protocol's arms and seeds, at the rates that its rule chooses, with the tokens that their curves give.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use crate::{committed, root};
use serde::Deserialize;
use std::collections::BTreeSet;

#[derive(Deserialize)]
struct Protocol {
    rates: Rates,
    seeds: Seeds,
    exam: Exam,
}

#[derive(Deserialize)]
struct Rates {
    middle: f64,
    factors: Vec<f64>,
}

#[derive(Deserialize)]
struct Seeds {
    selection: Vec<u64>,
    evaluation: Vec<u64>,
}

#[derive(Deserialize)]
struct Exam {
    target: f64,
}

#[derive(Deserialize)]
struct Run {
    cell: String,
    stage: String,
    arm: String,
    rate: f64,
    seed: u64,
    reached: Option<f64>,
    accuracy: f64,
    curve: String,
}

fn recorded() -> (Protocol, Vec<Run>) {
    let text = std::fs::read_to_string(root().join("paper/protocols/chain.toml")).unwrap();
    (toml::from_str(&text).unwrap(), committed("chain_runs.csv").to_rows().unwrap())
}

/// The tokens at which the mean of an exam and the one before first reaches the target, interpolated from the mean before.
fn tokens_of(curve: &str, target: f64) -> Option<f64> {
    let points: Vec<(f64, f64)> = curve
        .split(' ')
        .map(|point| point.split_once(':').unwrap())
        .map(|(tokens, accuracy)| (tokens.parse().unwrap(), accuracy.parse().unwrap()))
        .collect();
    let mut before = points[0];
    for pair in points.windows(2) {
        let now = (pair[1].0, (pair[0].1 + pair[1].1) / 2.0);
        if now.1 >= target {
            return Some(before.0 + (now.0 - before.0) * (target - before.1) / (now.1 - before.1));
        }
        before = now;
    }
    None
}

#[test]
fn tokens_to_the_target_are_those_of_the_curves() {
    let (protocol, runs) = recorded();
    for run in &runs {
        let own = tokens_of(&run.curve, protocol.exam.target);
        let name = format!("{} {} {} {}", run.stage, run.arm, run.rate, run.seed);
        assert_eq!(own.is_some(), run.reached.is_some(), "{name}");
        // The curve has four digits of an accuracy.
        let off = own.unwrap_or(0.0) / run.reached.unwrap_or(1.0) - f64::from(u8::from(own.is_some()));
        assert!(off.abs() < 2e-3, "{name}: {own:?}, {:?}", run.reached);
    }
}

#[test]
fn evaluation_runs_are_of_the_protocols_seeds_at_the_rates_that_selection_chooses() {
    let (protocol, runs) = recorded();
    let arms: BTreeSet<(&str, &str)> = runs.iter().map(|r| (r.cell.as_str(), r.arm.as_str())).collect();
    let mut seen = BTreeSet::new();
    for (cell, arm) in arms {
        let own = |stage: &str| -> Vec<&Run> {
            runs.iter().filter(|r| r.cell == cell && r.arm == arm && r.stage == stage).collect()
        };
        let score = |factor: &f64| {
            let rate = factor * protocol.rates.middle;
            let at_rate = own("selection").into_iter().filter(|r| (r.rate / rate - 1.0).abs() < 1e-9);
            let at_rate: Vec<&Run> = at_rate.collect();
            assert!(at_rate.iter().all(|r| protocol.seeds.selection.contains(&r.seed)));
            let mut tokens: Vec<f64> = at_rate.iter().map(|r| r.reached.unwrap_or(f64::INFINITY)).collect();
            tokens.sort_by(f64::total_cmp);
            let accuracy: f64 = at_rate.iter().map(|r| r.accuracy).sum();
            (tokens.get(1).copied().unwrap_or(f64::INFINITY), -accuracy, rate)
        };
        let best =
            protocol.rates.factors.iter().map(score).min_by(|a, b| a.partial_cmp(b).unwrap()).unwrap().2;
        for run in own("evaluation") {
            assert!((run.rate / best - 1.0).abs() < 1e-9, "{cell} {arm}: {} is not {best}", run.rate);
            assert!(protocol.seeds.evaluation.contains(&run.seed), "{arm}: seed {}", run.seed);
            assert!(seen.insert((cell, arm, run.seed)), "{arm}, seed {} twice", run.seed);
        }
    }
    let gate = ["rloo", "oracle", "anti_oracle"];
    assert!(
        gate.iter().all(|arm| protocol
            .seeds
            .evaluation
            .iter()
            .all(|seed| seen.contains(&("single", *arm, *seed))))
    );
}
