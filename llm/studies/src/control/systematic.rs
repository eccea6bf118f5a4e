//! RLOO and systematic groups on addition, each at the learning rate that other seeds choose: `paper/protocols/systematic.toml`, which was written first.

use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

use grpo_lambda::methods::{self, Configured};
use grpo_lambda_stats::{mean, paired_permutation, t_interval};
use grpo_lambda_trainer::run::progress::say;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::baseline::sets;
use super::clamp::greedy;
use super::lab::{ADDITION, Lab, LabError, Optimiser, StepRecord};
use super::store::Results;

/// The protocol: everything that decides what is run and what it says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Protocol {
    version: u32,
    #[serde(rename = "status")]
    _status: String,
    settings: Vec<String>,
    rates: Vec<f64>,
    selection: Vec<u64>,
    evaluation: Vec<u64>,
    arms: Vec<Arm>,
    #[serde(rename = "endpoint")]
    _endpoint: toml::Table,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arm {
    method: String,
}

static COMMITTED: LazyLock<Protocol> = LazyLock::new(|| {
    toml::from_str(include_str!("../../../../paper/protocols/systematic.toml"))
        .expect("the compiled-in file is read by a test")
});

/// A run in the file of results; the first three fields say whose it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    method: String,
    rate: f64,
    seed: u64,
    /// Tokens sampled for training.
    tokens: f64,
    /// Mean reward of a sampled token.
    learning: f64,
    /// Mean reward of a response in the last ten steps.
    reward_at_end: f64,
    /// Share of all problems that the final weights solve greedily.
    accuracy: f64,
}

const KEYS: usize = 3;
/// The confidence level of a comparison, and the difference within which two arms count as equal.
const LEVEL: f64 = 0.975;
const MARGIN: f64 = 0.02;

/// Runs what is missing of the protocol, and reports.
///
/// # Errors
/// [`LabError`] for a file of other results, or a run that fails.
pub fn run(path: &Path) -> Result<(), LabError> {
    let rows = go_on(&COMMITTED, path)?;
    report(&COMMITTED, &rows).iter().for_each(|line| say(line));
    Ok(())
}

fn go_on(protocol: &Protocol, path: &Path) -> Result<Vec<Row>, LabError> {
    let own = "cargo run --release -p grpo-lambda-llm --example control -- systematic FILE";
    let command = format!("{own} (protocol {})", protocol.version);
    let results = Mutex::new(Results::open_typed::<Row>(path, &command, KEYS)?);
    let all = |_: &Arm| Some(protocol.rates.clone());
    protocol.selection.par_iter().try_for_each(|seed| runs_of_seed(protocol, *seed, all, &results))?;
    let rows: Vec<Row> = results.lock().unwrap_or_else(PoisonError::into_inner).rows()?;
    let best = |arm: &Arm| chosen(protocol, &rows, &arm.method).map(|rate| vec![rate]);
    protocol.evaluation.par_iter().try_for_each(|seed| runs_of_seed(protocol, *seed, best, &results))?;
    Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner).rows()?)
}

/// The missing runs of a seed, which share its start.
fn runs_of_seed(
    protocol: &Protocol,
    seed: u64,
    rates: impl Fn(&Arm) -> Option<Vec<f64>>,
    results: &Mutex<Results>,
) -> Result<(), LabError> {
    let locked = || results.lock().unwrap_or_else(PoisonError::into_inner);
    let key = |arm: &Arm, rate: f64| vec![arm.method.as_str().into(), rate.into(), (seed as usize).into()];
    let planned = protocol.arms.iter().flat_map(|arm| {
        let rates = rates(arm).unwrap_or_default();
        rates.into_iter().map(move |rate| (arm, rate))
    });
    let left: Vec<(&Arm, f64)> = planned.filter(|(arm, rate)| !locked().has(&key(arm, *rate))).collect();
    if left.is_empty() {
        return Ok(());
    }
    let lab = Lab::of_seed(seed, &ADDITION, &protocol.settings)?;
    for (arm, rate) in left {
        let row = Row { method: arm.method.clone(), rate, seed, ..execute(&lab, &parsed(arm), rate)? };
        say(&format!(
            "{} rate {rate} seed {seed}: learning {:.3}, {:.2} solved",
            row.method, row.learning, row.accuracy
        ));
        locked().add_typed(&row)?;
    }
    Ok(())
}

fn parsed(arm: &Arm) -> Configured {
    methods::parse(&arm.method, "").expect("a test parses the protocol")
}

fn execute(lab: &Lab, configured: &Configured, rate: f64) -> Result<Row, LabError> {
    let settings = lab.settings(sets(configured));
    let (engine, records) = lab.train_with(&settings, configured.method.as_ref(), Optimiser::AdamW, rate)?;
    let rl = &lab.session.config.rl;
    let tokens: f64 = records.iter().map(|r| r.length).sum();
    let last: Vec<f64> = records.iter().rev().take(10).map(|r| r.reward).collect();
    Ok(Row {
        tokens: tokens * (rl.prompts_per_step * rl.group_size) as f64,
        learning: records.iter().map(|r: &StepRecord| r.token_reward * r.length).sum::<f64>() / tokens,
        reward_at_end: mean(&last).unwrap_or(f64::NAN),
        accuracy: greedy(lab, &engine)?[0],
        ..Row::default()
    })
}

fn runs<'a>(rows: &'a [Row], method: &'a str, seeds: &'a [u64]) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |row| row.method == method && seeds.contains(&row.seed))
}

/// The rate with the highest mean of learning over the selection seeds, once all their runs are there.
fn chosen(protocol: &Protocol, rows: &[Row], method: &str) -> Option<f64> {
    let score = |rate: &f64| {
        let own = runs(rows, method, &protocol.selection).filter(|row| (row.rate / rate - 1.0).abs() < 1e-9);
        let learning: Vec<f64> = own.map(|row| row.learning).collect();
        Some((mean(&learning).filter(|_| learning.len() == protocol.selection.len())?, *rate))
    };
    let scores: Vec<(f64, f64)> = protocol.rates.iter().map(score).collect::<Option<_>>()?;
    scores.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, rate)| rate)
}

/// The learning of an arm by evaluation seed, in their order; `None` before all runs are there.
fn learning(protocol: &Protocol, rows: &[Row], method: &str) -> Option<Vec<f64>> {
    let of_seed = |seed: &u64| runs(rows, method, std::slice::from_ref(seed)).next().map(|r| r.learning);
    protocol.evaluation.iter().map(of_seed).collect()
}

fn report(protocol: &Protocol, rows: &[Row]) -> Vec<String> {
    let arm = |arm: &Arm| {
        let name = arm.method.as_str();
        let (Some(rate), Some(own)) = (chosen(protocol, rows, name), learning(protocol, rows, name)) else {
            return format!("{name}: not yet");
        };
        let least = protocol.rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = protocol.rates.iter().copied().fold(0.0, f64::max);
        let edge = if rate == least || rate == most { " (an end of the grid)" } else { "" };
        let average = mean(&own).unwrap_or(f64::NAN);
        format!(
            "{name}: rate {rate}{edge}, learning {average:.3}{}",
            against_first(protocol, rows, name, &own)
        )
    };
    protocol.arms.iter().map(arm).collect()
}

/// The comparison with the first arm, in words; nothing for the first arm itself.
fn against_first(protocol: &Protocol, rows: &[Row], name: &str, own: &[f64]) -> String {
    let first = &protocol.arms[0].method;
    let Some(other) = learning(protocol, rows, first).filter(|_| first != name) else { return String::new() };
    let differences: Vec<f64> = own.iter().zip(&other).map(|(a, b)| a - b).collect();
    let (Some(i), Some(test)) = (t_interval(&differences, LEVEL), paired_permutation(own, &other, 0, 0))
    else {
        return String::new();
    };
    let verdict = match (test.p <= 1.0 - LEVEL, i.low.abs().max(i.high.abs()) <= MARGIN) {
        (_, true) => "equal",
        (true, _) if i.low > 0.0 => "more",
        (true, _) if i.high < 0.0 => "less",
        _ => "not told",
    };
    format!(
        "; less {first}'s {:+.3} [{:+.3}, {:+.3}] over {} seeds, p = {:.4}: {verdict}",
        i.mid,
        i.low,
        i.high,
        differences.len(),
        test.p
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_runs_to_the_same_rows_wherever_it_stopped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.csv");
        let small =
            ["rl.group_size=4", "rl.steps=2", "rl.prompts_per_step=2", "sft.steps=1", "model.hidden=16"];
        let protocol = Protocol {
            settings: small.iter().chain(&["model.intermediate=16"]).map(ToString::to_string).collect(),
            rates: vec![0.001, 0.01],
            selection: vec![1],
            evaluation: vec![2, 3],
            ..COMMITTED.clone()
        };
        let rows = go_on(&protocol, &path).expect("it runs");
        // Three arms at two rates on one seed, and at one rate on two.
        assert_eq!(rows.len(), 12);
        let text = std::fs::read_to_string(&path).expect("written");
        std::fs::write(&path, text.lines().take(8).collect::<Vec<_>>().join("\n") + "\n").expect("written");
        assert_eq!(go_on(&protocol, &path).expect("it runs"), rows);
        assert_eq!(std::fs::read_to_string(&path).expect("there"), text);
    }

    #[test]
    fn rates_and_verdicts_follow_made_up_rows() {
        let protocol = &*COMMITTED;
        let row = |method: &str, rate, seed, learning| Row {
            method: method.to_owned(),
            rate,
            seed,
            learning,
            ..Row::default()
        };
        let mut rows = Vec::new();
        for (arm, gain) in protocol.arms.iter().zip([0.0, 0.1, 0.001]) {
            for (rate, score) in protocol.rates.iter().zip([0.1, 0.2, 0.5, 0.3, 0.2, 0.1]) {
                rows.extend(protocol.selection.iter().map(|seed| row(&arm.method, *rate, *seed, score)));
            }
            let noise = |seed: &u64| 0.002 * (seed % 3) as f64 * gain;
            rows.extend(
                protocol
                    .evaluation
                    .iter()
                    .map(|seed| row(&arm.method, 0.0005, *seed, 0.5 + gain + noise(seed))),
            );
        }
        assert_eq!(chosen(protocol, &rows, "rloo"), Some(0.0005));
        let lines = report(protocol, &rows);
        assert_eq!(lines[0], "rloo: rate 0.0005, learning 0.500");
        assert!(lines[1].ends_with("over 12 seeds, p = 0.0005: more"), "{}", lines[1]);
        assert!(lines[2].ends_with("equal"), "{}", lines[2]);
        rows.retain(|row| row.seed != 205);
        assert_eq!(report(protocol, &rows)[0], "rloo: not yet");
    }
}
