//! The statements and their verdicts; those on the printed numbers against each other.

pub(super) mod noise;
mod prose;

use super::Audit;
use super::gains::{Estimate, Gain};
use crate::experiment::Finding;
use crate::experiments::common::claim::{claim, quoted};
use crate::experiments::common::largest;
use crate::sentences::SentenceId;
use grpo_lambda_printed::Benchmark;
use grpo_lambda_printed::consistency::{self, Aggregation, Table1Check};

/// All findings, the paper's headline first.
pub(super) fn findings(audit: &Audit) -> Vec<Finding> {
    vec![
        noise::headline(audit),
        noise::benchmark_gain(audit),
        noise::multiplicity(audit),
        noise::selection(audit),
        noise::run_spread(audit),
        noise::detectable(audit),
        printed_averages(audit),
        whole_numbers(audit),
        table1_rows(audit),
        table1_caption(audit),
        prose::three_points(audit),
        prose::seven_b(audit),
        prose::math_rl(audit),
        prose::aime_ten(audit),
        prose::improvement_range(),
        prose::orz(audit),
        prose::math_rl_is_good(audit),
        prose::grows_with_size(audit),
        prose::llama_is_weaker(audit),
    ]
}

/// `a 1, b 2`
fn list<T>(items: impl IntoIterator<Item = T>, text: impl Fn(T) -> String) -> String {
    items.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Three decimals, or a power of ten when they would be zeros.
fn p_value(p: f64) -> String {
    if p < 0.001 { format!("{p:.0e}") } else { format!("{p:.3}") }
}

fn estimates(gains: &[Gain]) -> Vec<Estimate> {
    gains.iter().map(Gain::estimate).collect()
}

fn printed_averages(audit: &Audit) -> Finding {
    let checks = &audit.averages;
    let wrong: Vec<_> = checks.iter().filter(|c| c.impossible()).collect();
    let off = checks.iter().filter(|c| c.not_the_rounded_mean()).count();
    let explained = checks.iter().filter(|c| c.from_fractions).count();
    claim("printed_averages", "In Tables 3-6 AVG is the mean of the five scores above it")
        .holds_or(
            wrong.is_empty(),
            format!(
                "{} of {} averages differ by more than 0.001, which no rounding explains",
                wrong.len(),
                checks.len()
            ),
        )
        .value("averages", checks.len())
        .value("averages that are not the rounded mean of the printed scores", off)
        .value("averages as printed if k/N is averaged before rounding", explained)
        .rows("averages", &["model", "dataset", "variant", "printed", "mean_of_five"])
        .only("interpretation", &["not a mean of these scores"])
}

fn whole_numbers(audit: &Audit) -> Finding {
    let bad: Vec<_> = audit.cells.iter().filter(|c| !c.by_rounding).collect();
    let cut = audit.cells.iter().filter(|c| !c.by_truncation).count();
    let neither = bad.iter().filter(|c| !c.by_two_decimals && !c.by_truncation).count();
    claim(
        "whole_numbers",
        "Every printed score is a whole number of right answers divided by the benchmark's N (30, 83, 500, 272 \
         or 675), as with one greedy sample, the default of the paper's evaluation code",
    )
    .holds_or(
        bad.is_empty(),
        format!("{} of {} scores cannot be k/N rounded to three decimals", bad.len(), audit.cells.len()),
    )
    .value("printed scores", audit.cells.len())
    .value("impossible if rounded", bad.len())
    .value("impossible if cut off after three decimals", cut)
    .value("of those impossible if rounded, fit no interpretation", neither)
    .rows("impossible_scores", &[])
    .note("The others are right to two decimals with a zero appended, or cut.")
}

fn table1_rows(audit: &Audit) -> Finding {
    let names = [Benchmark::ALL.map(Benchmark::name).as_slice(), &["Average"]].concat();
    let (right, wrong): (Vec<&Table1Check>, Vec<_>) =
        audit.table1.iter().partition(|r| r.mismatches().is_empty());
    let named = |r: &Table1Check| format!("{} {}", r.model.name(), r.method());
    let describe = |row: &&Table1Check| {
        let cells = list(row.mismatches(), |i| {
            let (name, printed, own) = (names[i], row.printed[i].value(), row.best.values[i]);
            let off = |a: &Aggregation| (a.values[i] - printed).abs();
            let all = consistency::baselines(&audit.paper, row.model);
            let nearest = all.iter().min_by(|a, b| off(a).total_cmp(&off(b))).expect("five candidates");
            format!(
                "{name} is printed as {printed:.3} instead of {own:.4} (the {} is {:.4})",
                nearest.name, nearest.values[i]
            )
        });
        let lambda = &audit.table1[2 * row.model as usize + 1];
        let gains = list(row.mismatches(), |i| {
            let printed = f64::from(lambda.printed[i].0 - row.printed[i].0) / 10.0;
            let corrected = 100.0 * (lambda.printed[i].value() - row.best.values[i]);
            format!("{} {corrected:+.1} instead of {printed:+.1}", names[i])
        });
        format!("{}: {cells}; the corrected gains are {gains}", named(row))
    };
    let off = audit.table1.iter().filter(|r| r.average_minus_row_mean().abs() > 0.001);
    quoted(SentenceId::Table1IsAnAverage)
        .holds_or(wrong.is_empty(), list(&wrong, describe))
        .value("rows", audit.table1.len())
        .value("rows reproduced", right.len())
        .value("largest error of these", largest(right.iter().map(|r| r.largest_error)))
        .value("rows whose Average is not the mean of their cells", off.map(named).collect::<Vec<_>>())
}

fn table1_caption(audit: &Audit) -> Finding {
    let lambda_rows: Vec<_> = audit.table1.iter().filter(|r| r.lambda).collect();
    let same = lambda_rows.iter().all(|r| r.best.name == lambda_rows[0].best.name);
    let configurations =
        lambda_rows.iter().map(|r| format!("the row of {} is {}", r.model.name(), r.best.name));
    let errors: Vec<String> = lambda_rows.iter().map(|r| format!("{:.4}", r.largest_error)).collect();
    quoted(SentenceId::Table1OnlyLambda)
        .holds_or(same, configurations.collect::<Vec<_>>().join("; "))
        .value("largest deviations from the printed rows", errors)
}
