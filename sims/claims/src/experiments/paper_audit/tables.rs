//! The rows behind the findings.

use super::Audit;
use super::findings::noise::{best_means, common_gains, pooled_variants, variants_against_spread};
use super::gains::{self, Estimate, Gain};
use super::statistics::{correlation_needed, minimal_detectable};
use grpo_lambda_printed::{Benchmark, Column, Dataset, Model};
use grpo_lambda_stats::holm;
use grpo_lambda_stats::table::{Cell, Table};
use serde::Serialize;

pub(super) fn all(audit: &Audit) -> Vec<(String, Table)> {
    vec![
        (String::new(), comparisons(audit)),
        ("means".into(), means(audit)),
        ("variants".into(), variants(audit)),
        ("selection".into(), selection(audit)),
        ("averages".into(), averages(audit)),
        ("impossible_scores".into(), impossible_scores(audit)),
        ("table1".into(), table1(audit)),
        ("data_sets".into(), data_sets(audit)),
    ]
}

fn estimate(e: Estimate) -> [Cell; 6] {
    let (low, high) = e.interval();
    [e.points, e.se, low, high, e.z(), e.p()].map(Cell::from)
}

fn row(cells: impl IntoIterator<Item = Cell>, more: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
    cells.into_iter().chain(more).collect()
}

fn significance(points: f64, adjusted: f64) -> &'static str {
    match (adjusted < 0.05, points > 0.0) {
        (true, true) => "gain",
        (true, false) => "loss",
        (false, _) => "not told from 0",
    }
}

/// Every variant against GRPO.
fn comparisons(audit: &Audit) -> Table {
    let mut t = Table::new(&[
        "table",
        "model",
        "dataset",
        "variant",
        "grpo_mean",
        "variant_mean",
        "printed_gain_points",
        "gain_points",
        "se_points",
        "low95",
        "high95",
        "z",
        "p",
        "p_holm_76",
        "after_holm",
        "z_smoothed",
        "detectable_points",
    ]);
    for (g, adjusted) in audit.gains.iter().zip(&audit.corrected.adjusted) {
        let names = [
            g.run.model.table().into(),
            g.run.model.name().into(),
            g.run.dataset.name().into(),
            g.run.column.name().into(),
            g.baseline.mean().into(),
            g.run.mean().into(),
            g.printed_points().into(),
        ];
        let last = [
            (*adjusted).into(),
            significance(g.points, *adjusted).into(),
            g.smoothed().z().into(),
            minimal_detectable(g.se).into(),
        ];
        t.push(row(row(names, estimate(g.estimate())), last));
    }
    t
}

/// Every variant of every model, mean over the data sets; for the common one also over the models.
fn means(audit: &Audit) -> Table {
    let mut t = Table::new(&[
        "model",
        "variant",
        "gain_points",
        "se_points",
        "low95",
        "high95",
        "z",
        "p",
        "above_grpo",
        "below_grpo",
        "correlation_needed",
        "detectable_points",
    ]);
    let mut push = |model: &str, column: Column, e: Estimate, wins: (usize, usize)| {
        let last =
            [wins.0.into(), wins.1.into(), correlation_needed(e.z()).into(), minimal_detectable(e.se).into()];
        t.push(row(row([model.into(), column.name().into()], estimate(e)), last));
    };
    for model in Model::ALL {
        for column in audit.paper.columns(model).into_iter().skip(1) {
            let wins = audit.wins(|g| g.run.model == model && g.run.column == column);
            push(model.name(), column, gains::mean_gain(&audit.gains, model, column), wins);
        }
    }
    let common = common_gains(audit);
    let wins = audit.wins(|g| g.run.column == Column::COMMON);
    push("all four", Column::COMMON, Estimate::mean(&common), wins);
    t
}

/// Every variant over both 1.5B models.
fn variants(audit: &Audit) -> Table {
    let mut t = Table::new(&[
        "variant",
        "gain_points",
        "se_points",
        "low95",
        "high95",
        "z",
        "p",
        "p_holm_8",
        "after_holm",
        "above_grpo",
        "below_grpo",
        "se_run_spread",
        "p_run_spread",
    ]);
    let pooled = pooled_variants(audit);
    let adjusted = holm(&pooled.iter().map(|v| v.2.p()).collect::<Vec<_>>());
    let spread = variants_against_spread(audit);
    for (((column, parts, mean), adjusted), (_, by_spread, p)) in pooled.iter().zip(adjusted).zip(spread) {
        let count = |above: bool| parts.iter().filter(|g| (g.points > 0.0) == above).count();
        let last = [
            adjusted.into(),
            significance(mean.points, adjusted).into(),
            count(true).into(),
            count(false).into(),
            by_spread.se.into(),
            p.into(),
        ];
        t.push(row(row([column.name().into()], estimate(*mean)), last));
    }
    t
}

/// The best of eight.
fn selection(audit: &Audit) -> Table {
    #[derive(Serialize)]
    struct Row {
        model: &'static str,
        dataset: &'static str,
        best_variant: String,
        gain_points: f64,
        chance_mean_points: f64,
        chance_95_points: f64,
        p: f64,
        p_holm_8: Option<f64>,
    }
    let adjusted = holm(&audit.selections.iter().map(|s| s.p).collect::<Vec<_>>());
    let each = audit.selections.iter().zip(adjusted).map(|(s, adjusted)| Row {
        model: s.best.run.model.name(),
        dataset: s.best.run.dataset.name(),
        best_variant: s.best.run.column.name(),
        gain_points: s.best.points,
        chance_mean_points: s.expected,
        chance_95_points: s.quantile95,
        p: s.p,
        p_holm_8: Some(adjusted),
    });
    let means = best_means(audit).into_iter().map(|b| Row {
        model: b.model.name(),
        dataset: "mean of four",
        best_variant: b.column.name(),
        gain_points: b.mean.points,
        chance_mean_points: b.expected,
        chance_95_points: b.quantile95,
        p: b.p,
        p_holm_8: None,
    });
    Table::from_rows(each.chain(means))
}

/// Every AVG.
fn averages(audit: &Audit) -> Table {
    #[derive(Serialize)]
    struct Row {
        table: usize,
        model: &'static str,
        dataset: &'static str,
        variant: String,
        printed: f64,
        mean_of_five: f64,
        difference: f64,
        reading: &'static str,
    }
    Table::from_rows(audit.averages.iter().map(|c| Row {
        table: c.run.model.table(),
        model: c.run.model.name(),
        dataset: c.run.dataset.name(),
        variant: c.run.column.name(),
        printed: c.run.printed_average.value(),
        mean_of_five: c.run.mean(),
        difference: c.difference(),
        reading: match (c.impossible(), c.not_the_rounded_mean(), c.from_fractions) {
            (true, ..) => "not a mean of these scores",
            (false, _, true) => "mean of k/N, rounded",
            (false, false, false) => "mean of the printed scores, rounded",
            (false, true, false) => "within the rounding of scores and mean",
        },
    }))
}

/// Scores that are no k/N.
fn impossible_scores(audit: &Audit) -> Table {
    let mut t = Table::new(&[
        "table",
        "model",
        "dataset",
        "variant",
        "benchmark",
        "items",
        "printed",
        "nearest_k",
        "nearest",
        "right_if_cut",
        "right_to_two_decimals",
    ]);
    let yes = |b: bool| Cell::from(if b { "yes" } else { "no" });
    for c in audit.cells.iter().filter(|c| !c.by_rounding) {
        let n = c.benchmark.items() as f64;
        let r = &c.run;
        t.push(row(
            [r.model.table().into(), r.model.name().into(), r.dataset.name().into(), r.column.name().into()],
            [
                c.benchmark.name().into(),
                n.into(),
                c.score().value().into(),
                (c.nearest as f64).into(),
                (c.nearest as f64 / n).into(),
                yes(c.by_truncation),
                yes(c.by_two_decimals),
            ],
        ));
    }
    t
}

/// Every cell of Table 1 against the aggregation that explains its row.
fn table1(audit: &Audit) -> Table {
    #[derive(Serialize)]
    struct Row<'a> {
        model: &'static str,
        method: String,
        column: &'static str,
        printed: f64,
        recomputed: f64,
        difference: f64,
        agrees: &'static str,
        aggregation: &'a str,
    }
    let names = Benchmark::ALL.map(Benchmark::name).into_iter().chain(["Average"]);
    Table::from_rows(audit.table1.iter().flat_map(|r| {
        let wrong = r.mismatches();
        names.clone().enumerate().map(move |(i, column)| {
            let (printed, recomputed) = (r.printed[i].value(), r.best.values[i]);
            Row {
                model: r.model.name(),
                method: r.method().to_string(),
                column,
                printed,
                recomputed,
                difference: printed - recomputed,
                agrees: if wrong.contains(&i) { "no" } else { "yes" },
                aggregation: &r.best.name,
            }
        })
    }))
}

/// GRPO and the common variant by training data.
fn data_sets(audit: &Audit) -> Table {
    let mut t = Table::new(&["model", "variant", "math12k", "math_rl_16k", "gsm8k", "orzmath57k"]);
    for model in Model::ALL {
        for column in [Column::GRPO, Column::COMMON] {
            let runs = audit.paper.row_of_runs(model, column);
            t.push(row(
                [model.name().into(), column.name().into()],
                runs.iter().map(|r| Cell::from(r.mean())),
            ));
        }
    }
    debug_assert_eq!(t.columns.len(), 2 + Dataset::ALL.len());
    t
}

/// Gains of a model's variant by data set, then their mean: for the figures.
pub(super) fn with_mean(parts: &[Gain]) -> Vec<Estimate> {
    let mut out: Vec<Estimate> = parts.iter().map(Gain::estimate).collect();
    if !out.is_empty() {
        out.push(Estimate::mean(&out));
    }
    out
}
