//! The statements and their verdicts; those on the printed numbers against each other.

pub(super) mod noise;
mod prose;

use super::Audit;
use super::gains::{Estimate, Gain};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{finding, finding_on};
use crate::sentences::SentenceId;
use grpo_lambda_printed::consistency::{self, CellCheck};
use grpo_lambda_printed::{Benchmark, Dataset};

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

fn holds_or(holds: bool, why_not: impl FnOnce() -> String) -> Verdict {
    if holds { Verdict::Holds } else { Verdict::Fails(why_not()) }
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
    let in_orz = wrong.iter().filter(|c| c.run.dataset == Dataset::OrzMath57k).count();
    let one = |c: &&consistency::AverageCheck| {
        format!(
            "Table {} {}: {:.3}, not {:.4}",
            c.run.model.table(),
            c.run.name(),
            c.run.printed_average.value(),
            c.run.mean()
        )
    };
    finding(
        "AVG in Tables 3-6 is the mean of the five scores above it",
        holds_or(wrong.is_empty(), || {
            format!(
                "{} of {} differ by more than 0.001, which no rounding explains: {}",
                wrong.len(),
                checks.len(),
                list(&wrong, one)
            )
        }),
        format!(
            "{off} of {} are not the rounded mean of the printed scores (more than half a unit of the last digit off), {} of these by at most 0.0006; averaging k/N before rounding gives {explained} of {} as printed. {in_orz} of the {} wrong ones are of orzmath57k",
            checks.len(),
            off - wrong.len(),
            checks.len(),
            wrong.len(),
        ),
    )
}

fn impossible(audit: &Audit) -> Vec<&CellCheck> {
    audit.cells.iter().filter(|c| !c.by_rounding).collect()
}

fn whole_numbers(audit: &Audit) -> Finding {
    let bad = impossible(audit);
    let cut = audit.cells.iter().filter(|c| !c.by_truncation).count();
    let describe = |c: &&CellCheck| {
        let n = c.benchmark.items();
        let nearest = c.nearest as f64 / n as f64;
        let how = match (c.by_two_decimals, c.by_truncation) {
            (true, true) => "; right to two decimals, and cut",
            (true, false) => "; right to two decimals",
            (false, true) => "; right if cut",
            (false, false) => "",
        };
        format!(
            "{} {} {:.3} ({}/{n} = {nearest:.4}{how})",
            c.run.name(),
            c.benchmark.name(),
            c.score().value(),
            c.nearest
        )
    };
    let neither = bad.iter().filter(|c| !c.by_two_decimals && !c.by_truncation).count();
    finding(
        "every printed score is a whole number of right answers out of N = 30, 83, 500, 272, 675 (greedy, one sample: the default of the evaluation code the paper names)",
        holds_or(bad.is_empty(), || {
            format!(
                "{} of {} cannot be k/N rounded to three decimals: {}",
                bad.len(),
                audit.cells.len(),
                list(&bad, describe)
            )
        }),
        format!(
            "rounded: {} impossible; cut off after three decimals: {cut} would be impossible, so the tables are rounded. {} of the {} are right to two decimals with a zero appended, or cut; {neither} fit no reading",
            bad.len(),
            bad.len() - neither,
            bad.len()
        ),
    )
}

fn table1_rows(audit: &Audit) -> Finding {
    let names = [Benchmark::ALL.map(Benchmark::name).as_slice(), &["Average"]].concat();
    let wrong: Vec<_> = audit.table1.iter().filter(|r| !r.mismatches().is_empty()).collect();
    let describe = |row: &&consistency::Table1Check| {
        let cells = list(row.mismatches(), |i| {
            let all = consistency::baselines(&audit.paper, row.model);
            let off = |a: &consistency::Aggregation| (a.values[i] - row.printed[i].value()).abs();
            let nearest = all.iter().min_by(|a, b| off(a).total_cmp(&off(b))).expect("five candidates");
            format!(
                "{} {:.3}, not {:.4} (the {} is {:.4})",
                names[i],
                row.printed[i].value(),
                row.best.values[i],
                nearest.name,
                nearest.values[i]
            )
        });
        let lambda = &audit.table1[2 * row.model as usize + 1];
        let gains = list(row.mismatches(), |i| {
            let printed = lambda.printed[i].0 - row.printed[i].0;
            let corrected = 100.0 * (lambda.printed[i].value() - row.best.values[i]);
            format!("{} {:+.1} instead of {:+.1}", names[i], corrected, f64::from(printed) / 10.0)
        });
        format!("{} {}: {cells}; corrected gains {gains}", row.model.name(), row.method())
    };
    let largest = audit
        .table1
        .iter()
        .filter(|r| r.mismatches().is_empty())
        .map(|r| r.largest_error)
        .fold(0.0, f64::max);
    let row_means = list(audit.table1.iter().filter(|r| r.average_minus_row_mean().abs() > 0.001), |r| {
        format!(
            "{} {} prints {:.3}, its cells average {:.4}",
            r.model.name(),
            r.method(),
            r.printed[5].value(),
            r.printed[5].value() - r.average_minus_row_mean()
        )
    });
    finding_on(
        SentenceId::Table1IsAnAverage,
        holds_or(wrong.is_empty(), || list(&wrong, describe)),
        format!(
            "{} of {} rows reproduced within {largest:.4}; rows whose Average is not the mean of their cells: {row_means}",
            audit.table1.len() - wrong.len(),
            audit.table1.len()
        ),
    )
}

fn table1_caption(audit: &Audit) -> Finding {
    let lambda_rows: Vec<_> = audit.table1.iter().filter(|r| r.lambda).collect();
    let same = lambda_rows.iter().all(|r| r.best.name == lambda_rows[0].best.name);
    finding_on(
        SentenceId::Table1OnlyLambda,
        holds_or(same, || list(&lambda_rows, |r| format!("{}: {}", r.model.name(), r.best.name))),
        format!(
            "largest deviation from the printed rows {}",
            list(&lambda_rows, |r| format!("{:.4}", r.largest_error))
        ),
    )
}
