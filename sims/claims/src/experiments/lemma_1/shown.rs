//! Tables and figures.

use super::Numbers;
use super::corrected::{Depth, HORIZON, Prefix};
use super::findings::violations;
use crate::experiments::common::vectors::{EXACT, extremes, mean, quantile};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::table::Table;
use serde::Serialize;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        ("prefixes".into(), prefix_rows(n)),
        ("shrinking".into(), shrinking_rows(n)),
        ("tightness".into(), tightness_rows(n)),
    ]
}

fn prefix_rows(n: &Numbers) -> Table {
    #[derive(Serialize)]
    struct Row {
        family: &'static str,
        t: usize,
        prefixes: usize,
        violations: usize,
        worst_excess: f64,
        mean_gap: f64,
        mean_bound: f64,
    }
    let mut rows = Vec::new();
    for family in &n.families {
        let all = &family.prefixes;
        for t in 1..=all.iter().map(|p| p.t).max().unwrap_or(0) {
            let at: Vec<&Prefix> = all.iter().filter(|p| p.t == t).collect();
            let mean_of = |f: fn(&Prefix) -> f64| mean(&at.iter().map(|p| f(p)).collect::<Vec<_>>());
            rows.push(Row {
                family: family.name,
                t,
                prefixes: at.len(),
                violations: at.iter().filter(|p| p.violates()).count(),
                worst_excess: extremes(at.iter().map(|p| p.excess())).1,
                mean_gap: mean_of(|p| p.gap),
                mean_bound: mean_of(|p| p.bound),
            });
        }
    }
    Table::from_rows(rows)
}

fn shrinking_rows(n: &Numbers) -> Table {
    let mut table = Table::new(&["step", "move", "prefixes", "responses", "excess"]);
    for (i, s) in n.shrunk.steps.iter().enumerate() {
        table.push(vec![i.into(), s.name.into(), s.prefixes.into(), s.responses.into(), s.excess.into()]);
    }
    table
}

fn tightness_rows(n: &Numbers) -> Table {
    #[derive(Serialize)]
    struct Row {
        mdp: String,
        t: usize,
        distance: f64,
        corrected_bound: f64,
        printed_bound: f64,
        worst_pointwise_excess: f64,
    }
    let over_mdps = (0..HORIZON).map(|t| {
        let values = |f: fn(&Depth) -> f64| n.by_depth.iter().map(|d| f(&d[t])).collect::<Vec<_>>();
        Row {
            mdp: format!("mean of {} random", n.by_depth.len()),
            t,
            distance: mean(&values(|d| d.distance)),
            corrected_bound: mean(&values(|d| d.corrected)),
            printed_bound: mean(&values(|d| d.printed)),
            worst_pointwise_excess: extremes(values(|d| d.worst_excess)).1,
        }
    });
    let zeroed = |x: f64| if x.abs() < EXACT { 0.0 } else { x };
    let of_zoo = n.of_zoo.iter().flat_map(|hazard| {
        hazard.depths.iter().map(move |d| Row {
            mdp: hazard.name.into(),
            t: d.t,
            distance: zeroed(d.distance),
            corrected_bound: zeroed(d.corrected),
            printed_bound: zeroed(d.printed),
            worst_pointwise_excess: zeroed(d.worst_excess),
        })
    });
    Table::from_rows(over_mdps.chain(of_zoo))
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![(String::new(), scatter(n)), ("tightness".into(), tightness(n))]
}

fn scatter(n: &Numbers) -> Figure {
    let prefixes = &n.families[0].prefixes;
    let (over, worst) = violations(prefixes);
    Figure::new(format!(
        "Lemma 1 as printed fails: {over} of {} prefixes lie above its bound, by up to {worst:.2}; two tokens suffice",
        prefixes.len()
    ))
    .caption("Exact values, γ = 1. MDPs: two symbols and EOS legal at every prefix, horizon 4, random bits as rewards, standard normal logits. Right: a counterexample made smaller, step by step, while it still violates the bound.")
    .panel(plane(prefixes, n.mdps))
    .panel(shrinking(n))
}

fn plane(prefixes: &[Prefix], mdps: usize) -> Panel {
    let part =
        |broken: bool| prefixes.iter().filter(move |p| p.violates() == broken).map(|p| (p.bound, p.gap));
    Panel::new(format!("{} prefixes of {mdps} random MDPs", prefixes.len()))
        .x(Axis::new("printed bound 1 - Π (1 - π(EOS|s))").range(-0.04, 1.04))
        .y(Axis::new("V(s₀) - V(s)").range(-1.0, 1.0))
        .points("within the bound", part(false))
        .points("above the bound", part(true))
        .styled_line("V(s₀) - V(s) = bound", Style::Dashed, [(0.0, 0.0), (1.0, 1.0)])
}

fn shrinking(n: &Numbers) -> Panel {
    let steps = || n.shrunk.steps.iter().enumerate().map(|(i, s)| (i as f64, s.prefixes as f64));
    Panel::new("Shrinking a counterexample")
        .x("accepted simplification")
        .y(Axis::new("prefixes in the MDP").range(0.0, n.shrunk.steps[0].prefixes as f64 * 1.08))
        .line("prefixes", steps())
        .points("prefixes", steps())
        .hline(3.0, "3: a choice of A or B, then EOS")
}

/// A name and its value at one depth.
type Line = (&'static str, fn(&Depth) -> f64);

/// The differences that are drawn, with their bounds.
const LINES: [Line; 3] = [
    ("|V(s₀) - E[V(S)|alive]|", |d| d.distance),
    ("corrected bound P(τ ≤ t)", |d| d.corrected),
    ("printed bound, mean over prefixes alive", |d| d.printed),
];

fn style(line: usize) -> Style {
    if line == 2 { Style::Dashed } else { Style::Solid }
}

fn tightness(n: &Numbers) -> Figure {
    let figure = Figure::new("The corrected Lemma 1 holds and is loose: on average V moves far less than P(τ ≤ t) allows")
        .caption("Exact, γ = 1. Left: mean over MDPs, band 10-90 % of them. Middle: EOS hazard 0.1 everywhere. Right: hazard 0.5 after s₀, 0.05 elsewhere. Horizon 10. τ: EOS.")
        .columns(3)
        .panel_size(320, 310)
        .names(LINES.map(|(name, _)| name))
        .panel(over_mdps(&n.by_depth));
    n.of_zoo.iter().map(|hazard| of_hazard(hazard.name, &hazard.depths)).fold(figure, Figure::panel)
}

fn over_mdps(by_depth: &[Vec<Depth>]) -> Panel {
    let mut panel = Panel::new(format!("{} random MDPs", by_depth.len()))
        .x(Axis::new("t (tokens)").categories((0..HORIZON).map(|t| t.to_string())))
        .y(Axis::new("difference of values").range(-0.02, 1.0));
    for (k, (name, value)) in LINES.into_iter().enumerate() {
        let at = |t: usize| by_depth.iter().map(|d| value(&d[t])).collect::<Vec<f64>>();
        if k < 2 {
            panel = panel
                .band(name, (0..HORIZON).map(|t| (t as f64, quantile(&at(t), 0.1), quantile(&at(t), 0.9))));
        }
        panel = panel.styled_line(name, style(k), (0..HORIZON).map(|t| (t as f64, mean(&at(t)))));
    }
    panel
}

fn of_hazard(title: &str, depths: &[Depth]) -> Panel {
    let mut panel = Panel::new(title).x("t (tokens)").y(Axis::new("difference of values").range(-0.02, 1.0));
    for (k, (name, value)) in LINES.into_iter().enumerate() {
        panel = panel.styled_line(name, style(k), depths.iter().map(|d| (d.t as f64, value(d))));
    }
    panel
}
