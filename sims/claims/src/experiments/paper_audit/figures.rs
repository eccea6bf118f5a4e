//! Two pictures: gains with intervals, and all variants in units of noise.

use super::Audit;
use super::gains::{self, Estimate, Gain};
use super::tables::with_mean;
use crate::figure::{Axis, Figure, Mark, Panel};
use grpo_lambda_printed::{Column, Dataset, Model};

pub(super) fn all(audit: &Audit) -> Vec<(String, Figure)> {
    vec![("gains".into(), forest(audit)), ("variants".into(), map(audit))]
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
        "Mean accuracy on five benchmarks, as printed in Tables 3-6 of the paper; one training run each. Bars: 95 % intervals from the binomial noise of the test \
         items alone, unpaired. Clear: 0 is outside, without correction for 16 comparisons. The best variant is picked after the fact: its gain is biased upwards.",
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

/// Gain of every variant in standard errors, per data set, for the two models that have all variants.
fn map(audit: &Audit) -> Figure {
    let small = |g: &Gain| Model::SMALL.contains(&g.run.model);
    let (up, down) = audit.wins(small);
    let corrected = audit.gains.iter().zip(&audit.corrected.adjusted).filter(|(g, p)| small(g) && **p < 0.05);
    let (gain, loss): (Vec<_>, Vec<_>) = corrected.partition(|(g, _)| g.points > 0.0);
    let columns = &audit.paper.columns(Model::Qwen15)[1..];
    let rows: Vec<Vec<Vec<f64>>> = Model::SMALL
        .iter()
        .map(|m| {
            let row = |c: &Column| {
                with_mean(&gains::by_dataset(&audit.gains, *m, *c)).iter().map(Estimate::z).collect()
            };
            columns.iter().map(row).collect()
        })
        .collect();
    let end = rows.iter().flatten().flatten().fold(0.0_f64, |m, z| m.max(z.abs())).ceil();
    let mut figure = Figure::new(format!(
        "Only {up} of {} cells are above GRPO; {} gains and {} losses survive correction",
        up + down,
        gain.len(),
        loss.len()
    ))
    .caption(format!(
        "Printed scores of Tables 3 and 4: gain of the five-benchmark mean over GRPO in units of its standard error (binomial, test items only, unpaired); red: better than GRPO, blue: worse. \
         Beyond ±1.96 a single comparison is significant at 5 %; ★: it still is after Holm's correction over all {} printed comparisons.",
        audit.gains.len()
    ))
    .columns(1)
    .panel_size(840, 310);
    for (model, values) in Model::SMALL.iter().zip(rows) {
        let panel = Panel::new(model.name())
            .x(Axis::new("training data").categories(categories()))
            .y(Axis::new("variant (trace/update/λ)").categories(columns.iter().map(Column::name)))
            .mark(Mark::HeatMap {
                values,
                annotate: true,
                range: Some((-end, end)),
                diverging: true,
                label: "z of the gain (standard errors)".into(),
            });
        figure = figure.panel(
            stars(audit, *model, columns).into_iter().fold(panel, |panel, (x, y)| panel.text(x, y, "★")),
        );
    }
    figure
}

/// Places, right of the middle, for stars on the cells of a model that survive Holm's correction.
fn stars(audit: &Audit, model: Model, columns: &[Column]) -> Vec<(f64, f64)> {
    let survivors = audit.gains.iter().zip(&audit.corrected.adjusted).filter(|(_, p)| **p < 0.05);
    let place = |g: &Gain| {
        let x = Dataset::ALL.iter().position(|d| *d == g.run.dataset)?;
        let y = columns.iter().position(|c| *c == g.run.column)?;
        Some((x as f64 + 0.3, y as f64))
    };
    survivors.filter(|(g, _)| g.run.model == model).filter_map(|(g, _)| place(g)).collect()
}
