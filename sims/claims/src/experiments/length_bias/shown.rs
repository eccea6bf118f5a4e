//! Tables and figures.

use super::{ADVANTAGE_RATIO, AtLambda, Numbers, Region};
use crate::experiments::common::record::{Record, table, yes};
use crate::experiments::common::{at_least_exact, largest};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::table::Table;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        ("methods".into(), methods(n)),
        ("fixed_length".into(), fixed_length(n)),
        ("regions".into(), region_rows(n)),
        ("ratio".into(), ratio_rows(n)),
        ("per_response".into(), per_response(n)),
    ]
}

fn methods(n: &Numbers) -> Table {
    table(n.methods.iter().flat_map(|m| {
        [("short", m.short_better), ("long", m.long_better)].map(|(better, p)| {
            Record::default()
                .with("method", m.name.as_str())
                .with("better", better)
                .with("credit_short", p.credit[0])
                .with("credit_long", p.credit[1])
                .with("credit_ratio", p.credit[1] / p.credit[0])
                .with("step_short", p.step[0])
                .with("step_long", p.step[1])
                .with("inverts", yes(p.inverts()))
        })
    }))
}

fn fixed_length(n: &Numbers) -> Table {
    table(n.fixed_length.iter().map(|f| {
        Record::default()
            .with("mdp", f.mdp)
            .with("length", f.len)
            .with("style", f.style)
            .with("lambda", f.lambda)
            .with("cosine_with_gradient", f.cosine)
            .with("largest_difference_below", at_least_exact(f.off))
    }))
}

fn region_rows(n: &Numbers) -> Table {
    table(n.regions.iter().map(|r| {
        Record::default()
            .with("method", r.method)
            .with("q_short", r.success[0])
            .with("q_long", r.success[1])
            .with("advantage_difference", r.preference.q[0] - r.preference.q[1])
            .with("credit_difference", r.preference.credit[0] - r.preference.credit[1])
            .with("inverts", yes(r.preference.inverts()))
    }))
}

fn ratio_rows(n: &Numbers) -> Table {
    table(n.by_lambda.iter().map(|at| {
        Record::default()
            .with("normalise", at.normalise)
            .with("long_length", at.len)
            .with("lambda", at.lambda)
            .with("credit_short", at.credit[0])
            .with("credit_long", at.credit[1])
            .with("credit_ratio", at.ratio())
            .with("advantage_ratio", ADVANTAGE_RATIO)
    }))
}

fn per_response(n: &Numbers) -> Table {
    table(n.per_response.iter().map(|m| {
        Record::default()
            .with("mdp", m.mdp.as_str())
            .with("mean_length", m.mean_length)
            .with("cosine_with_gradient", m.cosine)
            .with("largest_difference_to_formula_below", at_least_exact(m.off))
    }))
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![("regions".into(), regions(n)), ("ratio".into(), ratios(n))]
}

fn regions(n: &Numbers) -> Figure {
    let figure = Figure::new("Length-dependent weights invert preferences: the worse answer gains on the better one")
        .caption("Exact expected step of the two logits at the prompt; short T = 2, long T = 50, each chosen with probability 0.15, else astray (T = 10, reward 0); G = 4, λ = 0.99, no std, no clamp. Q: probability of reward. Mean 1: weights of each response averaging 1 (ours).")
        .panel_size(440, 330);
    n.regions.chunk_by(|a, b| a.method == b.method).map(region).fold(figure, Figure::panel)
}

fn region(regions: &[Region]) -> Panel {
    let unequal = || regions.iter().filter(|r| r.success[0] != r.success[1]);
    let points = |inverted: bool| {
        let own = unequal().filter(move |r| r.preference.inverts() == inverted);
        own.map(|r| (r.success[0], r.success[1]))
    };
    Panel::new(format!(
        "{}: {:.0} % inverted",
        regions[0].method.replace("weights of mean 1", "mean 1"),
        100.0 * points(true).count() as f64 / unequal().count() as f64
    ))
    .x(Axis::new("Q of the short answer").range(-0.04, 1.04))
    .y(Axis::new("Q of the long answer").range(-0.04, 1.04))
    .points("the better answer gains on the worse one", points(false))
    .points("inverted: the worse answer gains on the better one", points(true))
    .styled_line("equal values", Style::Dashed, [(0.0, 0.0), (1.0, 1.0)])
}

fn ratios(n: &Numbers) -> Figure {
    let most = largest(n.by_lambda.iter().map(AtLambda::ratio));
    let figure = Figure::new(format!(
        "The longer the worse answer and the larger λ, the more credit it gets: up to {most:.0} times the better's"
    ))
    .caption("Exact implied credit at the prompt: long answer (Q = 0.8) over short answer (Q = 0.9, T = 2), V0 = 0.25; recent trace, reduction constant, G = 4, no std, no clamp.");
    n.by_lambda.chunk_by(|a, b| a.normalise == b.normalise).map(ratio).fold(figure, Figure::panel)
}

fn ratio(points: &[AtLambda]) -> Panel {
    let title = match points[0].normalise {
        "none" => "Trace as in the paper",
        _ => "Weights of each response with mean 1 (ours)",
    };
    // Every λ has the same room: most changes between 0.9 and 1.
    let mut lambdas: Vec<f64> = points.iter().map(|at| at.lambda).collect();
    lambdas.sort_by(f64::total_cmp);
    lambdas.dedup();
    let place = |lambda: f64| lambdas.iter().position(|l| *l == lambda).unwrap_or(0) as f64;
    let mut panel = Panel::new(title)
        .x(Axis::new("λ (γ = 1; steps are not even)").categories(lambdas.iter().map(f64::to_string)))
        .y(Axis::new("credit of long / credit of short").log().range(0.5, 100.0));
    for same_length in points.chunk_by(|a, b| a.len == b.len) {
        let name = format!("T = {}", same_length[0].len);
        let points = || same_length.iter().map(|at| (place(at.lambda), at.ratio()));
        panel = panel.styled_line(name.clone(), Style::Solid, points()).points(name, points());
    }
    panel.hline(ADVANTAGE_RATIO, "true ratio").hline(1.0, "above: inverted")
}
