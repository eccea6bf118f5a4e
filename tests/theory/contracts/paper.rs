//! The audit of the printed tables against counting: every `k` of `n` is tried where the product computes with whole numbers.

use grpo_lambda_printed::consistency::{AverageCheck, averages, baselines, cells, table1};
use grpo_lambda_printed::{Benchmark, Column, Dataset, Model, Paper, Score, SummaryRow};

/// Half a unit of the last printed digit, and what adding five such numbers rounds.
const HALF: f64 = 0.0005;
const ROUNDING: f64 = 1e-9;

fn paper() -> Paper {
    Paper::embedded().expect("the committed tables")
}

/// All `k/n` of a benchmark with `k`.
fn fractions(benchmark: Benchmark) -> impl Iterator<Item = (i64, f64)> {
    let n = benchmark.items();
    (0..=n).map(move |k| (k, k as f64 / n as f64))
}

#[test]
fn names_and_numbers_of_the_tables() {
    assert_eq!(Benchmark::ALL.map(Benchmark::items), [30, 83, 500, 272, 675]);
    assert_eq!(Benchmark::ALL.map(Benchmark::name), ["AIME24", "AMC", "MATH", "Minerva", "Olympiad"]);
    assert_eq!(Benchmark::ALL.map(Benchmark::row_name), ["AIME", "AMC", "MATH", "MIN", "OLBen"]);
    assert_eq!(Dataset::ALL.map(Dataset::name), ["math12k", "math-rl-16k", "gsm8k", "orzmath57k"]);
    assert_eq!(Model::ALL.map(Model::table), [3, 4, 5, 6]);
    assert_eq!(Score(334).value(), 0.334);
    let paper = paper();
    let named = |model| paper.columns(model).iter().map(Column::name).collect::<Vec<_>>();
    let all = [
        "GRPO",
        "both/ε-trace/0.98",
        "both/ε-trace/0.99",
        "both/ε-weight/0.98",
        "both/ε-weight/0.99",
        "recent/ε-trace/0.98",
        "recent/ε-trace/0.99",
        "recent/ε-weight/0.98",
        "recent/ε-weight/0.99",
    ];
    let mut found = named(Model::Qwen15);
    found.sort();
    assert_eq!(found, all);
    assert_eq!(named(Model::R1Qwen7), ["GRPO", "recent/ε-trace/0.99"]);
    let styles: Vec<_> =
        paper.columns(Model::Qwen15).iter().map(|c| [c.trace_style.name(), c.update_style.name()]).collect();
    assert_eq!(styles[0], ["grpo", "grpo"]);
    for pair in [["both", "trace"], ["both", "weight"], ["recent", "trace"], ["recent", "weight"]] {
        assert_eq!(styles.iter().filter(|s| **s == pair).count(), 2, "{pair:?}");
    }
}

#[test]
fn a_run_has_its_name_sum_and_mean() {
    let paper = paper();
    let run = paper.run(Model::R1Qwen15, Dataset::Gsm8k, Column::COMMON).expect("a column of Table 4");
    assert_eq!(run.name(), "R1-Distill-Qwen-1.5B on gsm8k, recent/ε-trace/0.99");
    let sum: i32 = run.scores.iter().map(|s| s.0).sum();
    assert_eq!((run.sum(), run.mean()), (sum, f64::from(sum) / 5000.0));
    let row = paper.row_of_runs(Model::R1Qwen15, Column::COMMON);
    assert_eq!(row.iter().map(|r| r.dataset).collect::<Vec<_>>(), Dataset::ALL);
}

#[test]
fn printed_averages_agree_with_arithmetic_on_decimals() {
    let paper = paper();
    let checks = averages(&paper);
    assert_eq!(checks.len(), paper.runs.len());
    let mut seen = [0; 3];
    for check in &checks {
        let mean = check.run.scores.iter().map(|s| s.value()).sum::<f64>() / 5.0;
        let difference = check.run.printed_average.value() - mean;
        assert!((check.difference() - difference).abs() < ROUNDING, "{}", check.run.name());
        assert_eq!(check.not_the_rounded_mean(), difference.abs() > HALF + ROUNDING, "{}", check.run.name());
        assert_eq!(check.impossible(), difference.abs() > 2.0 * HALF + ROUNDING, "{}", check.run.name());
        let nearest = |b: Benchmark| {
            let printed = check.run.scores[b as usize].value();
            let away = |x: &f64| (x - printed).abs();
            fractions(b).map(|(_, x)| x).min_by(|x, y| away(x).total_cmp(&away(y))).expect("0 at least")
        };
        let of_fractions = Benchmark::ALL.map(nearest).iter().sum::<f64>() / 5.0;
        let from_fractions = (of_fractions - check.run.printed_average.value()).abs() <= HALF + ROUNDING;
        assert_eq!(check.from_fractions, from_fractions, "{}", check.run.name());
        seen[0] += usize::from(check.not_the_rounded_mean());
        seen[1] += usize::from(check.impossible());
        seen[2] += usize::from(!check.from_fractions);
    }
    assert!(seen.iter().all(|n| *n > 0), "every kind occurs: {seen:?}");
    // A whole unit of the last digit can be rounding, of the scores and of the average together.
    let whole_unit = AverageCheck { five_times_difference: -5, ..checks[0] };
    assert!(whole_unit.not_the_rounded_mean() && !whole_unit.impossible());
    assert!(AverageCheck { five_times_difference: -6, ..checks[0] }.impossible());
    assert!(!AverageCheck { five_times_difference: 2, ..checks[0] }.not_the_rounded_mean());
}

#[test]
fn printed_scores_agree_with_counting() {
    let mut kinds = [0; 3];
    let paper = paper();
    let checks = cells(&paper);
    assert_eq!(checks.len(), 5 * paper.runs.len());
    for check in checks {
        let printed = check.run.scores[check.benchmark as usize];
        assert_eq!(check.score(), printed);
        let v = printed.value();
        let any = |holds: &dyn Fn(f64) -> bool| fractions(check.benchmark).any(|(_, x)| holds(x));
        assert_eq!(check.by_rounding, any(&|x| (x - v).abs() <= HALF + ROUNDING));
        assert_eq!(check.by_truncation, any(&|x| x >= v - ROUNDING && x < v + 2.0 * HALF - ROUNDING));
        let two_decimals = printed.0 % 10 == 0 && any(&|x| (x - v).abs() <= 0.005 + ROUNDING);
        assert_eq!(check.by_two_decimals, two_decimals);
        let away = |k: i64| (k as f64 / check.benchmark.items() as f64 - v).abs();
        assert!(fractions(check.benchmark).all(|(k, _)| away(check.nearest) <= away(k) + ROUNDING));
        for (n, of) in kinds.iter_mut().zip([check.by_rounding, check.by_truncation, check.by_two_decimals]) {
            *n += usize::from(!of);
        }
    }
    assert!(kinds.iter().all(|n| *n > 0), "every kind of score is refused somewhere: {kinds:?}");
}

#[test]
fn the_rows_of_table_1_against_means_over_data_sets() {
    let paper = paper();
    let rows = table1(&paper);
    assert_eq!(rows.len(), 8);
    let off = |printed: &[Score; 6], values: &[f64; 6]| -> Vec<usize> {
        (0..6).filter(|&i| (printed[i].value() - values[i]).abs() > 2.0 * HALF + ROUNDING).collect()
    };
    for (i, row) in rows.iter().enumerate() {
        assert_eq!((row.model, row.lambda), (Model::ALL[i / 2], i % 2 == 1));
        assert_eq!(row.method(), ["GRPO", "GRPO-λ"][i % 2]);
        assert_eq!(row.mismatches(), off(&row.printed, &row.best.values));
        let errors = row.printed.iter().zip(row.best.values).map(|(p, v)| (p.value() - v).abs());
        assert!((row.largest_error - errors.fold(0.0, f64::max)).abs() < ROUNDING);
        let mean = row.printed[..5].iter().map(|s| s.value()).sum::<f64>() / 5.0;
        assert!((row.average_minus_row_mean() - (row.printed[5].value() - mean)).abs() < ROUNDING);
        if !row.lambda {
            for candidate in baselines(&paper, row.model) {
                assert!(
                    off(&row.printed, &candidate.values).len() >= row.mismatches().len(),
                    "{}",
                    candidate.name
                );
            }
        }
    }
    let names: Vec<_> = rows.iter().map(|r| r.best.name.as_str()).collect();
    assert_eq!(names, NAMES_OF_TABLE_1);
}

/// The settings that reproduce most of each row, model by model, GRPO before GRPO-λ; `paper/data/paper_audit_table1.csv` has the numbers.
const NAMES_OF_TABLE_1: [&str; 8] = [
    "mean of four data sets",
    "recent/ε-trace, mean over λ = 0.98 and 0.99",
    "mean of four data sets",
    "recent/ε-trace, mean over λ = 0.98 and 0.99",
    "mean of four data sets",
    "recent/ε-trace/0.99",
    "mean of four data sets",
    "recent/ε-trace/0.99",
];

#[test]
fn the_candidates_for_a_baseline_are_means_over_data_sets_by_hand() {
    let paper = paper();
    let candidates = baselines(&paper, Model::Qwen15);
    let names: Vec<_> = candidates.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "mean of four data sets",
            "mean without math12k",
            "mean without math-rl-16k",
            "mean without gsm8k",
            "mean without orzmath57k"
        ]
    );
    for (i, candidate) in candidates.iter().enumerate() {
        let kept = Dataset::ALL.into_iter().enumerate().filter(|(d, _)| d + 1 != i);
        let runs: Vec<_> =
            kept.map(|(_, d)| paper.run(Model::Qwen15, d, Column::GRPO).expect("GRPO")).collect();
        for b in 0..5 {
            let mean = runs.iter().map(|r| r.scores[b].value()).sum::<f64>() / runs.len() as f64;
            assert!((candidate.values[b] - mean).abs() < ROUNDING, "{}", candidate.name);
        }
        let mean = candidate.values[..5].iter().sum::<f64>() / 5.0;
        assert!((candidate.values[5] - mean).abs() < ROUNDING, "{}", candidate.name);
    }
}

/// The aggregation that stands for a row has the most cells of it, and of those with as many the least deviation.
#[test]
fn of_candidates_with_as_many_cells_the_nearest_stands_for_a_row() {
    let mut paper = paper();
    // No mean is near these, so that all candidates have as many cells: none.
    for pair in &mut paper.table1 {
        let far = Score(999);
        pair.grpo = SummaryRow { average: far, aime: far, amc: far, math: far, minerva: far, olympiad: far };
    }
    for row in table1(&paper).into_iter().filter(|row| !row.lambda) {
        assert_eq!(row.mismatches().len(), 6);
        for candidate in baselines(&paper, row.model) {
            let away = candidate.values.iter().fold(0.0, |m: f64, v| m.max((v - 0.999).abs()));
            assert!(away >= row.largest_error - ROUNDING, "{} for {}", row.best.name, candidate.name);
        }
    }
}

#[test]
fn a_score_of_two_decimals_must_be_a_count_rounded_to_them() {
    let mut paper = paper();
    // 1/30 is 0.03 and 2/30 is 0.07; nothing is 0.05.
    for (score, possible) in [(Score(30), true), (Score(50), false), (Score(70), true)] {
        paper.runs[0].scores[Benchmark::Aime as usize] = score;
        let check = cells(&paper)[0];
        assert_eq!((check.score(), check.by_two_decimals), (score, possible));
    }
}

#[test]
fn a_table_without_blocks_is_refused_with_what_stands_there() {
    let text = include_str!("../../../crates/printed/src/tables.json");
    let mut file: serde_json::Value = serde_json::from_str(text).expect("JSON");
    file["tables"]["table3"]["blocks"] = serde_json::json!(7);
    let refused = Paper::from_json(&file.to_string()).expect_err("no blocks").to_string();
    assert!(refused.contains("a block of scores for each data set"), "{refused}");
}
