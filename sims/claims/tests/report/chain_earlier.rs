//! The recorded runs of versions 4 and 5 of CHAIN: of the protocol's arms and seeds, at the rates that its rule chooses,
//! with the tokens that their curves give, and the numbers that are still printed.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use crate::{Row, number, one_line, protocol, rows, text};
use grpo_lambda_stats::table::Table;
use grpo_lambda_trials::{Curve, Seeds};
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
    curve: Curve,
}

fn recorded() -> (Protocol, Vec<Run>) {
    (protocol("chain"), rows("chain_runs.csv"))
}

/// The tokens at which the mean of an exam and the one before first reaches the target, interpolated from the mean
/// before.
fn tokens_of(curve: &Curve, target: f64) -> Option<f64> {
    let points = &curve.0;
    let mut before = (points[0].tokens, points[0].accuracy);
    for pair in points.windows(2) {
        let now = (pair[1].tokens, (pair[0].accuracy + pair[1].accuracy) / 2.0);
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
    for arm in ["rloo", "oracle", "anti_oracle"] {
        assert!(protocol.seeds.evaluation.iter().all(|seed| seen.contains(&("single", arm, *seed))), "{arm}");
    }
}

/// Student's t at 97.5 %, by degrees of freedom, from printed tables.
fn t_975(freedom: usize) -> f64 {
    let printed =
        [(2, 4.302652730), (5, 2.570581836), (9, 2.262157163), (10, 2.228138852), (11, 2.200985160)];
    let more = [(19, 2.093024054), (21, 2.079613845), (23, 2.068657610)];
    let found = printed.iter().chain(&more).find(|(n, _)| *n == freedom);
    found.unwrap_or_else(|| panic!("no quantile for {freedom} degrees of freedom")).1
}

/// Mean, low and high ends of Student's t interval at 95 %.
fn interval(xs: &[f64]) -> [f64; 3] {
    crate::interval(xs, t_975(xs.len() - 1))
}

/// Tokens to the target of a run: its seed, its tokens, and whether it arrived.
type Arrival = (u64, f64, bool);

/// The evaluation runs of an arm on chains of one length, by seed.
fn arrivals(text: &str, arm: &str) -> Vec<Arrival> {
    #[derive(Deserialize)]
    struct Row {
        cell: String,
        stage: String,
        arm: String,
        seed: u64,
        tokens: f64,
        reached: Option<f64>,
    }
    let rows: Vec<Row> = Table::from_csv(text).unwrap().to_rows().unwrap();
    let own = rows.iter().filter(|r| r.cell == "single" && r.stage == "evaluation" && r.arm == arm);
    let mut own: Vec<Arrival> =
        own.map(|r| (r.seed, r.reached.unwrap_or(r.tokens), r.reached.is_some())).collect();
    own.sort_by_key(|run| run.0);
    own
}

/// The logarithms of the ratios of two arms; a pair of which neither arrives counts as 0 or not at all.
fn log_ratios(text: &str, [arm, over]: [&str; 2], neither_counts: bool) -> Vec<f64> {
    let pairs = arrivals(text, arm).into_iter().zip(arrivals(text, over));
    pairs
        .inspect(|(a, b)| assert_eq!(a.0, b.0, "{arm}, {over}"))
        .filter(|(a, b)| neither_counts || a.2 || b.2)
        .map(|(a, b)| if a.2 || b.2 { (a.1 / b.1).ln() } else { 0.0 })
        .collect()
}

/// Compares a printed ratio and the ends of its interval with logarithms of ratios.
fn same(row: &Row, column: &str, ratios: &[f64]) {
    let columns = [column.to_owned(), format!("{column}_low"), format!("{column}_high")];
    for (column, own) in columns.iter().zip(interval(ratios)) {
        assert!((number(row, column) / own.exp() - 1.0).abs() < 1e-6, "{row:?}, {column}: {}", own.exp());
    }
}

#[test]
fn the_gate_under_two_rules_is_that_of_the_recorded_runs() {
    let (four, five) = (text("llm/results/chain_version_4.csv"), text("paper/data/chain_runs.csv"));
    let mut seen = Vec::new();
    for row in rows::<Row>("chain_gate.csv") {
        let (runs, rule) = (&row["runs"], &row["rule_of_version"]);
        let files: &[&str] = match runs.as_str() {
            "version 4" => &[&four],
            "version 5" => &[&five],
            _ => &[&four, &five],
        };
        let ratios = |arm: &str| -> Vec<f64> {
            files.iter().flat_map(|file| log_ratios(file, [arm, "rloo"], rule == "4")).collect()
        };
        let (verifier, permuted) = (ratios("oracle"), ratios("anti_oracle"));
        same(&row, "tokens", &verifier);
        same(&row, "permuted", &permuted);
        let pairs = ["pairs", "permuted_pairs"].map(|column| number(&row, column));
        assert_eq!(pairs, [verifier.len() as f64, permuted.len() as f64]);
        let passed = interval(&verifier)[0] <= 0.5f64.ln() && interval(&permuted)[0] >= 0.0;
        assert_eq!(row["gate"], if passed { "passed" } else { "void" }, "{runs}, {rule}");
        seen.push(format!("{runs}, {rule}, {:.3}", interval(&verifier)[0].exp()));
    }
    // The crossing that decides: by either version's own rule, then by the other's.
    for cell in ["version 4, 4, 0.504", "version 5, 5, 0.463", "version 5, 4, 0.526", "version 4, 5, 0.439"] {
        assert!(seen.iter().any(|seen| seen == cell), "{cell}: {seen:?}");
    }
    assert_eq!(seen.len(), 6);
}

#[test]
fn comparisons_are_those_of_the_recorded_runs() {
    let runs = text("paper/data/chain_runs.csv");
    for row in rows::<Row>("chain_earlier.csv").iter().filter(|row| row["cell"] == "single") {
        let ratios = log_ratios(&runs, [&row["arm"], &row["over"]], false);
        same(row, "tokens", &ratios);
        assert_eq!(number(row, "pairs"), ratios.len() as f64, "{row:?}");
    }
    // The history: what version 5 said of its seeds and of three comparisons.
    let history = one_line("paper/protocols/chain.toml");
    let pairs = arrivals(&runs, "oracle").into_iter().zip(arrivals(&runs, "rloo"));
    let reported = pairs.filter(|(a, b)| a.2 || b.2).map(|(a, b)| a.1 / b.1);
    let (fewer, more): (Vec<f64>, Vec<f64>) = reported.partition(|ratio| *ratio < 1.0);
    let ends = [f64::min, f64::max].map(|end| fewer.iter().copied().reduce(end).unwrap());
    let of_seeds =
        format!("{:.2} to {:.2} of RLOO's tokens on {} of its twelve seeds", ends[0], ends[1], fewer.len());
    assert_eq!(more.iter().map(|x| format!("{x:.2}")).collect::<Vec<_>>(), ["1.19"]);
    let said = |arm: &str, over: &str| {
        let [mid, low, high] = interval(&log_ratios(&runs, [arm, over], false)).map(f64::exp);
        format!("{mid:.2} ({low:.2} to {high:.2})")
    };
    let ratios = [said("oracle", "grpo_clamp"), said("lambda_mean1", "grpo"), said("grpo_clamp", "grpo")];
    for number in ratios.into_iter().chain([of_seeds]) {
        assert!(history.contains(&number), "paper/protocols/chain.toml: {number}");
    }
}

#[test]
fn noise_at_the_three_places_is_that_of_the_recorded_sums() {
    #[derive(Deserialize)]
    struct Sums {
        seed: u64,
        place: String,
        arm: String,
        square: f64,
        own_square: f64,
        along: f64,
        gradient_square: f64,
    }
    let sums: Vec<Sums> = rows("chain_6_updates_runs.csv");
    let noise = |s: &Sums| (s.square - s.own_square) / (s.along / s.gradient_square.sqrt()).powi(2);
    let printed: Vec<Row> = rows("chain_updates.csv");
    for arm in ["verifier_q_b", "trace", "grpo_clamp", "permuted"] {
        for place in ["start", "middle", "end"] {
            let of_arm = |arm: &'static str| sums.iter().filter(move |s| s.arm == arm && s.place == place);
            let over = |s: &Sums| noise(s) / noise(of_arm("rloo").find(|r| r.seed == s.seed).unwrap());
            let ratios: Vec<f64> = of_arm(arm).map(over).collect();
            let row = printed.iter().find(|row| row["arm"] == arm && row["place"] == place).unwrap();
            for (column, own) in ["noise", "noise_low", "noise_high"].iter().zip(interval(&ratios)) {
                let off = (number(row, column) - own).abs();
                assert!(off < 1e-6 * own.abs().max(1e-2), "{arm}, {place}, {column}: {own}");
            }
        }
    }
}

#[test]
fn the_pilot_and_the_mended_credit_are_reported_with_their_numbers() {
    let protocol = one_line("paper/protocols/chain.toml");
    for number in ["474,473", "665,643 (.71", "258,463 (.39"] {
        assert!(protocol.contains(number), "{number}");
    }
    assert_eq!(format!("{:.2} {:.2}", 474_473.0 / 665_643.0, 258_463.0 / 665_643.0), "0.71 0.39");
    // The controls that ran again with the mended credit, over the recorded ones of the same seeds.
    let again = arrivals(&text("llm/results/chain_exact_credit.csv"), "oracle");
    let former = arrivals(&text("paper/data/chain_runs.csv"), "oracle");
    let ratio = |run: &Arrival| (run.1 / former.iter().find(|f| f.0 == run.0).unwrap().1).ln();
    let [mid, low, high] = interval(&again.iter().map(ratio).collect::<Vec<_>>()).map(f64::exp);
    let said = format!("| 212, 213, 219, 220, 222, 223 | {mid:.3} | {low:.3} to {high:.3} |");
    assert_eq!(again.iter().map(|run| run.0).collect::<Vec<_>>(), [212, 213, 219, 220, 222, 223]);
    assert!(one_line("llm/results/README.md").contains(&said), "{said}");
}

/// Credit that is modelled is not called exact, and no page quotes a share of a log ratio.
#[test]
fn pages_call_verifier_credit_by_its_name_and_quote_no_share_of_a_gain() {
    for page in [
        "README.md",
        "paper/README.md",
        "paper/atlas.md",
        "paper/paper.typ",
        "paper/numbers.typ",
        "llm/results/README.md",
    ] {
        let text = text(page).to_lowercase();
        for struck in ["exact credit", "of its gain over", "what exact", "share of the oracle", "chain-share"]
        {
            assert!(!text.contains(struck), "{page}: {struck}");
        }
    }
}
