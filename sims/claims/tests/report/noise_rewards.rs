//! The recorded runs with random rewards: complete, and their mean advantage the exact one.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use crate::{Row, number, rows};
use grpo_lambda::advantage::{Baseline, ClampPart, OutcomeAdvantage, Scale, Std};

/// Responses to a prompt in the recorded runs.
const GROUP: usize = 8;

/// The mean over all outcomes of a group of random rewards, by enumeration.
fn mean_advantage(part: &str, clamp: f64) -> f64 {
    if part == "upper clamp" {
        // The opposite outcomes negate every score.
        return -mean_advantage(ClampPart::Both.name(), -clamp);
    }
    let part = ClampPart::ALL.into_iter().find(|p| p.name() == part).expect("a part of the clamp");
    let of = |clamp| OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp };
    let mean = |tosses: usize| {
        let rewards: Vec<_> = (0..GROUP).map(|i| Some(f64::from((tosses >> i & 1) as u8))).collect();
        let z = |clamp| of(clamp).of_batch(std::slice::from_ref(&rewards)).remove(0);
        part.of_group(&z(None), &z(Some(clamp))).iter().sum::<f64>() / GROUP as f64
    };
    (0..1 << GROUP).map(mean).sum::<f64>() / f64::from(1 << GROUP)
}

#[test]
fn every_setting_has_every_seed_and_its_exact_mean_advantage() {
    let mut seeds = std::collections::BTreeMap::new();
    for row in rows::<Row>("noise_rewards_runs.csv") {
        let key = ["optimiser", "lambda", "part", "clamp", "reduction"].map(|column| row[column].clone());
        seeds.entry(key).or_insert_with(Vec::new).push(row["seed"].clone());
        let exact = mean_advantage(&row["part"], number(&row, "clamp"));
        assert!((number(&row, "mean_advantage") - exact).abs() < 1e-9, "{row:?}");
        let change = number(&row, "length_after") - number(&row, "length_before");
        assert!((number(&row, "change") - change).abs() < 1e-9, "{row:?}");
        // Nothing is predicted where nothing is paid, nor without a trace where all tokens weigh equally; and nothing at
        // all under AdamW.
        let weighed = number(&row, "lambda") > 0.0 || row["reduction"] == "1/T per response";
        let pays = exact.abs() > 1e-9 && weighed;
        match row["optimiser"].as_str() {
            "SGD" => assert_eq!(number(&row, "predicted_change").abs() > 1e-9, pays, "{row:?}"),
            _ => assert_eq!(row["predicted_change"], "", "{row:?}"),
        }
    }
    assert!(seeds.len() >= 9, "{seeds:?}");
    let first = seeds.values().next().unwrap();
    assert!(first.len() > 1 && seeds.values().all(|s| s == first), "{seeds:?}");
}
