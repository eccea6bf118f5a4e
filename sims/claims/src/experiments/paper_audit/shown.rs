//! The rows of the findings, and two pictures: gains with intervals, and all variants in units of noise.

use super::Audit;
use super::findings::noise::{best_means, common_gains, pooled_variants, variants_against_spread};
use super::gains::{self, Chance, Estimate, Gain, correlation_needed, minimal_detectable};
use crate::experiments::common::record::{Record, table, yes};
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_printed::{Benchmark, Column, Dataset, Model, Run};
use grpo_lambda_stats::holm;
use grpo_lambda_stats::table::Table;

pub(super) fn tables(audit: &Audit) -> Vec<(String, Table)> {
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

/// A row of a run.
fn of_run(run: &Run) -> Record {
    Record::default()
        .with("table", run.model.table())
        .with("model", run.model.name())
        .with("dataset", run.dataset.name())
        .with("variant", run.column.name())
}

/// Adds an estimate's columns.
fn estimate(row: Record, e: Estimate) -> Record {
    let (low, high) = e.interval();
    row.with("gain_points", e.points)
        .with("se_points", e.se)
        .with("low95", low)
        .with("high95", high)
        .with("z", e.z())
        .with("p", e.p())
}

/// Adds a corrected p-value and what it says.
fn corrected(row: Record, column: &str, points: f64, adjusted: f64) -> Record {
    let said = match (adjusted < 0.05, points > 0.0) {
        (true, true) => "gain",
        (true, false) => "loss",
        (false, _) => "inconclusive",
    };
    row.with(column, adjusted).with("after_holm", said)
}

/// Every variant against GRPO.
fn comparisons(audit: &Audit) -> Table {
    table(audit.gains.iter().zip(&audit.corrected.adjusted).map(|(g, adjusted)| {
        let means = of_run(&g.run)
            .with("grpo_mean", g.baseline.mean())
            .with("variant_mean", g.run.mean())
            .with("printed_gain_points", g.printed_points());
        corrected(estimate(means, g.estimate()), "p_holm_76", g.points, *adjusted)
            .with("z_smoothed", g.smoothed().z())
            .with("detectable_points", minimal_detectable(g.se))
    }))
}

/// Every variant of every model, mean over the data sets; for the common one also over the models.
fn means(audit: &Audit) -> Table {
    let row = |model: &str, column: Column, e: Estimate, (above, below): (usize, usize)| {
        let named = Record::default().with("model", model).with("variant", column.name());
        estimate(named, e)
            .with("above_grpo", above)
            .with("below_grpo", below)
            .with("correlation_needed", correlation_needed(e.z()))
            .with("detectable_points", minimal_detectable(e.se))
    };
    let of_model = |model: Model| {
        audit.paper.columns(model).into_iter().skip(1).map(move |column| {
            let wins = audit.wins(|g| g.run.model == model && g.run.column == column);
            row(model.name(), column, gains::mean_gain(&audit.gains, model, column), wins)
        })
    };
    let common = Estimate::mean(&common_gains(audit));
    let wins = audit.wins(|g| g.run.column == Column::COMMON);
    let over_models = row("all four", Column::COMMON, common, wins);
    table(Model::ALL.into_iter().flat_map(of_model).chain([over_models]))
}

/// Every variant over both 1.5B models.
fn variants(audit: &Audit) -> Table {
    let pooled = pooled_variants(audit);
    let adjusted = holm(&pooled.iter().map(|v| v.2.p()).collect::<Vec<_>>());
    let spread = variants_against_spread(audit);
    let rows = pooled.iter().zip(adjusted).zip(spread);
    table(rows.map(|(((column, parts, mean), adjusted), (_, by_spread, p))| {
        let count = |above: bool| parts.iter().filter(|g| (g.points > 0.0) == above).count();
        let row = estimate(Record::default().with("variant", column.name()), *mean);
        corrected(row, "p_holm_8", mean.points, adjusted)
            .with("above_grpo", count(true))
            .with("below_grpo", count(false))
            .with("se_run_spread", by_spread.se)
            .with("p_run_spread", p)
    }))
}

/// The best of eight.
fn selection(audit: &Audit) -> Table {
    let row = |model: Model, dataset: &str, best: Column, gain: f64, chance: Chance| {
        Record::default()
            .with("model", model.name())
            .with("dataset", dataset)
            .with("best_variant", best.name())
            .with("gain_points", gain)
            .with("chance_mean_points", chance.expected)
            .with("chance_95_points", chance.quantile95)
            .with("p", chance.p)
    };
    let adjusted = holm(&audit.selections.iter().map(|s| s.chance.p).collect::<Vec<_>>());
    let each = audit.selections.iter().zip(adjusted).map(|(s, adjusted)| {
        let run = &s.best.run;
        row(run.model, run.dataset.name(), run.column, s.best.points, s.chance).with("p_holm_8", adjusted)
    });
    let means = best_means(audit).map(|(model, column, mean, chance)| {
        row(model, "mean of four", column, mean.points, chance).with("p_holm_8", None::<f64>)
    });
    table(each.chain(means))
}

fn averages(audit: &Audit) -> Table {
    table(audit.averages.iter().map(|c| {
        let interpretation = match (c.impossible(), c.not_the_rounded_mean(), c.from_fractions) {
            (true, ..) => "not a mean of these scores",
            (false, _, true) => "mean of k/N, rounded",
            (false, false, false) => "mean of the printed scores, rounded",
            (false, true, false) => "within the rounding of scores and mean",
        };
        of_run(&c.run)
            .with("printed", c.run.printed_average.value())
            .with("mean_of_five", c.run.mean())
            .with("difference", c.difference())
            .with("interpretation", interpretation)
    }))
}

/// Scores that are no k/N.
fn impossible_scores(audit: &Audit) -> Table {
    table(audit.cells.iter().filter(|c| !c.by_rounding).map(|c| {
        let n = c.benchmark.items() as f64;
        of_run(&c.run)
            .with("benchmark", c.benchmark.name())
            .with("items", n)
            .with("printed", c.score().value())
            .with("nearest_k", c.nearest as f64)
            .with("nearest", c.nearest as f64 / n)
            .with("right_if_cut", yes(c.by_truncation))
            .with("right_to_two_decimals", yes(c.by_two_decimals))
    }))
}

/// Every cell of Table 1 against the aggregation that explains its row.
fn table1(audit: &Audit) -> Table {
    let names = Benchmark::ALL.map(Benchmark::name).into_iter().chain(["Average"]);
    table(audit.table1.iter().flat_map(|r| {
        let wrong = r.mismatches();
        names.clone().enumerate().map(move |(i, column)| {
            let (printed, recomputed) = (r.printed[i].value(), r.best.values[i]);
            Record::default()
                .with("model", r.model.name())
                .with("method", r.method())
                .with("column", column)
                .with("printed", printed)
                .with("recomputed", recomputed)
                .with("difference", printed - recomputed)
                .with("agrees", yes(!wrong.contains(&i)))
                .with("aggregation", r.best.name.as_str())
        })
    }))
}

/// GRPO and the common variant by training data.
fn data_sets(audit: &Audit) -> Table {
    let pairs = Model::ALL.into_iter().flat_map(|m| [Column::GRPO, Column::COMMON].map(|c| (m, c)));
    table(pairs.map(|(model, column)| {
        let named = Record::default().with("model", model.name()).with("variant", column.name());
        let runs = audit.paper.row_of_runs(model, column);
        runs.iter().fold(named, |row, run| row.with(run.dataset.name().replace('-', "_"), run.mean()))
    }))
}

/// Gains of a model's variant by data set, then their mean: for the figures.
fn with_mean(parts: &[Gain]) -> Vec<Estimate> {
    let mut out: Vec<Estimate> = parts.iter().map(Gain::estimate).collect();
    if !out.is_empty() {
        out.push(Estimate::mean(&out));
    }
    out
}

pub(super) fn figures(audit: &Audit) -> Vec<(String, Figure)> {
    vec![("gains".into(), forest(audit))]
}

fn categories() -> Vec<&'static str> {
    Dataset::ALL.map(Dataset::name).into_iter().chain(["mean of four"]).collect()
}

fn points(estimates: &[Estimate]) -> Vec<(f64, f64, f64, f64)> {
    let point = |(i, e): (usize, &Estimate)| {
        let (low, high) = e.interval();
        (i as f64, low, e.points, high)
    };
    estimates.iter().enumerate().map(point).collect()
}

/// Gains of one variant and of the best one, per model and data set.
fn forest(audit: &Audit) -> Figure {
    let common = |m: Model| gains::by_dataset(&audit.gains, m, Column::COMMON);
    let single: Vec<Gain> = Model::ALL.into_iter().flat_map(common).collect();
    let clear = |positive: bool| {
        single.iter().filter(|g| g.estimate().p() < 0.05 && (g.points > 0.0) == positive).count()
    };
    let mut figure = Figure::new(format!(
        "Of the paper's {} gains {} are clear, {} is a clear loss, {} lie within the noise of the test items",
        single.len(),
        clear(true),
        clear(false),
        single.len() - clear(true) - clear(false)
    ))
    .caption(
        "Mean accuracy on five benchmarks, as printed in Tables 3-6 of the paper; one training run each. Bars: 95 % \
         intervals from the binomial noise of the test items alone, unpaired. Clear: 0 is outside, without correction \
         for 16 comparisons. The best variant is picked after the fact: its gain is biased upwards.",
    )
    .panel_size(480, 320);
    let limits = limits(audit);
    for model in Model::ALL {
        let mut panel = Panel::new(model.name())
            .x(Axis::new("training data").categories(categories()))
            .y(Axis::new("gain over GRPO (points)").range(-limits, limits))
            .hline(0.0, "GRPO")
            .intervals("recent/ε-trace/0.99", points(&with_mean(&common(model))));
        if audit.paper.columns(model).len() > 2 {
            let best = Dataset::ALL.map(|d| gains::selection(&audit.gains, model, d).best);
            panel = panel
                .intervals("best variant of the table, chosen after the fact", points(&with_mean(&best)));
        }
        figure = figure.panel(panel);
    }
    figure
}

/// The end of all panels' axes: beyond every interval drawn.
fn limits(audit: &Audit) -> f64 {
    let ends = audit.gains.iter().filter(|g| g.run.column == Column::COMMON || g.points > 0.0);
    let farthest = ends.map(|g| g.estimate().interval()).fold(0.0_f64, |m, (l, h)| m.max(-l).max(h));
    (farthest / 2.0).ceil() * 2.0
}
