//! Version 6 of CHAIN recomputed from its rows: rates, areas under the curves, intervals, exact sign flips, Holm's
//! correction, the outcomes of the predictions, and the numbers that pages print.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use crate::trials::{Compared, T_OF_24 as T, area};
use crate::{finding, interval, one_line, rows, text};
use grpo_lambda_trials::{Comparison, End, Point, Stage, Study, Trial};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The run of a method with an evaluation seed.
fn evaluated<'a>(runs: &'a [Trial], method: &str, seed: u64) -> &'a Trial {
    let own = |r: &&Trial| r.stage == Stage::Evaluation && r.method == method && r.seed == seed;
    runs.iter().find(own).unwrap()
}

/// The protocol, all runs, and the scores of every method in the order of the evaluation seeds.
struct Recomputed {
    protocol: Study<toml::Table>,
    runs: Vec<Trial>,
    scores: BTreeMap<String, Vec<f64>>,
}

impl Recomputed {
    fn new() -> Recomputed {
        let protocol: Study<toml::Table> = Study::read(&text("paper/protocols/chain_6.toml")).unwrap();
        let runs: Vec<Trial> = rows("chain_6_runs.csv");
        let score = |name: &str, seed: &u64| area(&evaluated(&runs, name, *seed).curve, protocol.budget);
        let of_method = |name: &String| {
            (name.clone(), protocol.seeds.evaluation.iter().map(|s| score(name, s)).collect())
        };
        let scores = protocol.methods.iter().map(|m| of_method(&m.name)).collect();
        Recomputed { protocol, runs, scores }
    }

    fn minus(&self, method: &str, with: &str) -> Vec<f64> {
        let own = &self.scores[method];
        assert_eq!(own.len(), 24);
        own.iter().zip(&self.scores[with]).map(|(a, b)| a - b).collect()
    }
}

fn compared() -> Vec<Compared> {
    rows("chain_compared.csv")
}

#[test]
fn the_runs_are_those_of_the_protocol_at_the_rates_that_selection_chooses() {
    let Recomputed { protocol, runs, .. } = Recomputed::new();
    let [selection, evaluation] = [&protocol.seeds.selection, &protocol.seeds.evaluation];
    let last = |run: &Trial| -> Point { *run.curve.0.last().unwrap() };
    assert!(runs.iter().all(|run| run.ended == End::Budget && last(run).tokens >= protocol.budget));
    let mut wanted = BTreeSet::new();
    for name in protocol.methods.iter().map(|method| method.name.as_str()) {
        let mean = |rate: &f64| {
            let own = |r: &&Trial| r.stage == Stage::Selection && r.method == name && r.rate == *rate;
            let scores: Vec<f64> =
                runs.iter().filter(own).map(|run| area(&run.curve, protocol.budget)).collect();
            assert_eq!(scores.len(), selection.len(), "{name} at {rate}");
            scores.iter().sum::<f64>()
        };
        let best = protocol.rates.iter().max_by(|a, b| mean(a).total_cmp(&mean(b))).unwrap();
        // No chosen rate is an end of the grid.
        assert!(protocol.rates[1..protocol.rates.len() - 1].contains(best), "{name}: {best}");
        let rates = protocol.rates.iter().flat_map(|r| selection.iter().map(move |s| (false, *r, *s)));
        let all = rates.chain(evaluation.iter().map(|seed| (true, *best, *seed)));
        wanted.extend(all.map(|(evaluates, rate, seed)| (evaluates, name, rate.to_bits(), seed)));
    }
    let found: BTreeSet<(bool, &str, u64, u64)> = runs
        .iter()
        .map(|r| (r.stage == Stage::Evaluation, r.method.as_str(), r.rate.to_bits(), r.seed))
        .collect();
    assert_eq!((found.len(), runs.len()), (480, 480));
    assert!(found == wanted);
}

#[test]
fn methods_and_seeds_have_the_areas_of_their_curves() {
    #[derive(Deserialize)]
    struct Method {
        method: String,
        seeds: usize,
        accuracy: f64,
        accuracy_low: f64,
        accuracy_high: f64,
        minus_rloo: Option<f64>,
        minus_rloo_low: Option<f64>,
        minus_rloo_high: Option<f64>,
        last: f64,
    }
    #[derive(Deserialize)]
    struct Seed {
        method: String,
        seed: u64,
        accuracy: f64,
        minus_rloo: f64,
        last: f64,
    }
    let all = Recomputed::new();
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    let seeds: Vec<Seed> = rows("chain_seeds.csv");
    assert_eq!(seeds.len(), 240);
    for row in &seeds {
        let k = all.protocol.seeds.evaluation.iter().position(|seed| *seed == row.seed).unwrap();
        let run = evaluated(&all.runs, &row.method, row.seed);
        assert!(close(row.accuracy, all.scores[&row.method][k]), "{} {}", row.method, row.seed);
        assert!(close(row.minus_rloo, all.minus(&row.method, "rloo")[k]));
        assert!(close(row.last, run.curve.0.last().unwrap().accuracy));
    }
    let methods: Vec<Method> = rows("chain.csv");
    assert_eq!(methods.len(), 10);
    for row in methods {
        let wanted = interval(&all.scores[&row.method], T[0]);
        let found = [row.accuracy, row.accuracy_low, row.accuracy_high];
        assert!(found.iter().zip(wanted).all(|(a, b)| close(*a, b)), "{}: {wanted:?}", row.method);
        let minus = interval(&all.minus(&row.method, "rloo"), T[0]);
        let found = [row.minus_rloo, row.minus_rloo_low, row.minus_rloo_high];
        let same = |(found, wanted): (&Option<f64>, f64)| {
            found.map_or(row.method == "rloo", |found| close(found, wanted))
        };
        assert!(found.iter().zip(minus).all(same), "{}: {minus:?}", row.method);
        let last: f64 = seeds.iter().filter(|seed| seed.method == row.method).map(|seed| seed.last).sum();
        assert!(row.seeds == 24 && close(row.last, last / 24.0));
    }
}

#[test]
fn comparisons_are_those_of_the_rows_with_exact_sign_flips() {
    let all = Recomputed::new();
    let rows = compared();
    let pairs = |pairs: &[Comparison], role: &str| -> Vec<[String; 3]> {
        pairs.iter().map(|pair| [role.to_owned(), pair.method.clone(), pair.with.clone()]).collect()
    };
    let reported = ["reported", "permuted", "rloo"].map(str::to_owned);
    let wanted = [
        pairs(&all.protocol.gate.better, "gate"),
        pairs(&all.protocol.comparisons, "family"),
        vec![reported],
    ]
    .concat();
    let found = rows.iter().map(|row| [row.role.clone(), row.method.clone(), row.with.clone()]);
    assert_eq!(found.collect::<Vec<_>>(), wanted);
    let family: Vec<f64> = rows.iter().filter(|row| row.role == "family").map(|row| row.p).collect();
    assert_eq!(family.len(), 9);
    for row in &rows {
        // The protocol draws 100,000 flips.
        row.check(&all.minus(&row.method, &row.with), T, Some(1e5));
        if row.role == "family" {
            let verdict = row.corrected_verdict(&family, all.protocol.margin);
            assert_eq!(row.verdict, verdict, "{}", row.name());
        } else {
            assert!(row.corrected.is_none() && row.verdict.is_empty(), "{}", row.name());
        }
    }
}

/// The outcome of every prediction, by the words of `falsified_by`.
#[test]
fn the_gate_is_passed_and_five_predictions_held() {
    let all = Recomputed::new();
    let rows = compared();
    for pair in &all.protocol.gate.better {
        assert!(interval(&all.minus(&pair.method, &pair.with), T[0])[1] > 0.0, "P1: {}", pair.with);
    }
    let verdict = |method: &str, with: &str| {
        let found = rows.iter().find(|r| r.role == "family" && r.method == method && r.with == with);
        found.unwrap().verdict.clone()
    };
    assert_eq!(verdict("verifier_q_b", "verifier_q_v"), "higher", "P2");
    assert_ne!(verdict("trace", "grpo"), "higher", "P3");
    assert_eq!(verdict("grpo_clamp", "grpo"), "higher", "P4");
    assert_ne!(verdict("grpo_lambda", "grpo_clamp"), "higher", "P4");
    assert_ne!(verdict("tempo", "rloo"), "higher", "P5");
    assert!(finding("chain", "predictions").values.contains("P1, P2, P3, P4, P5 held"));
    for key in ["gate", "predictions", "baseline", "trace", "clamp", "tempo"] {
        assert_eq!(finding("chain", key).verdict, "Holds", "{key}");
    }
}

#[test]
fn pages_print_the_recomputed_numbers() {
    let all = Recomputed::new();
    let whole = |method: &str, with: &str| {
        let [mid, low, high] = interval(&all.minus(method, with), T[0]);
        format!("{mid:+.3} ({low:+.3} to {high:+.3})")
    };
    let mid = |method: &str, with: &str| format!("{:.3}", interval(&all.minus(method, with), T[0])[0]);
    let from_grpo = |method: &str| whole(method, "grpo").split(' ').next().unwrap().to_owned();
    let [clamp, paper, trace] = ["grpo_clamp", "grpo_lambda", "trace"].map(from_grpo);
    for words in [
        format!("| chains, small model | {clamp} | {trace} | {paper} |"),
        format!("On chains a verifier's credit beats RLOO by {}.", mid("verifier_q_b", "rloo")),
    ] {
        assert!(one_line("README.md").contains(&words), "README.md: {words}");
    }
    let report = one_line("paper/README.md");
    for (method, with) in [
        ("verifier_q_b", "rloo"),
        ("verifier_q_b", "permuted"),
        ("verifier_q_v", "rloo"),
        ("grpo_lambda", "grpo"),
        ("grpo_lambda", "grpo_clamp"),
        ("trace", "grpo"),
        ("grpo_clamp", "grpo"),
    ] {
        assert!(report.contains(&whole(method, with)), "paper/README.md: {}", whole(method, with));
    }
    // Version 5 is no answer any more.
    for page in ["README.md", "paper/paper.typ", "paper/numbers.typ"] {
        let text = one_line(page);
        assert!(!text.contains("0.32 to 0.64") && !text.contains("verifier-range"), "{page}");
    }
}
