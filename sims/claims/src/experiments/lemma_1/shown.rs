//! Tables and figures.

use super::Numbers;
use super::corrected::{Depth, HORIZON, Prefix};
use super::findings::violations;
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{EXACT, extremes, mean, quantile};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::table::Table;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![("prefixes".into(), prefix_rows(n)), ("tightness".into(), tightness_rows(n))]
}

fn prefix_rows(n: &Numbers) -> Table {
    let mut rows = Vec::new();
    for family in &n.families {
        let all = &family.prefixes;
        for t in 1..=all.iter().map(|p| p.t).max().unwrap_or(0) {
            let at: Vec<&Prefix> = all.iter().filter(|p| p.t == t).collect();
            let mean_of = |f: fn(&Prefix) -> f64| mean(&at.iter().map(|p| f(p)).collect::<Vec<_>>());
            rows.push(
                Record::default()
                    .with("family", family.name)
                    .with("t", t)
                    .with("prefixes", at.len())
                    .with("violations", at.iter().filter(|p| p.violates()).count())
                    .with("worst_excess", extremes(at.iter().map(|p| p.excess())).1)
                    .with("mean_gap", mean_of(|p| p.gap))
                    .with("mean_bound", mean_of(|p| p.bound)),
            );
        }
    }
    table(rows)
}

fn tightness_rows(n: &Numbers) -> Table {
    let row = |mdp: &str, t: usize, [distance, corrected, printed, worst]: [f64; 4]| {
        Record::default()
            .with("mdp", mdp)
            .with("t", t)
            .with("distance", distance)
            .with("corrected_bound", corrected)
            .with("printed_bound", printed)
            .with("worst_pointwise_excess", worst)
    };
    let over_mdps = (0..HORIZON).map(|t| {
        let values = |f: fn(&Depth) -> f64| n.by_depth.iter().map(|d| f(&d[t])).collect::<Vec<_>>();
        let [distance, corrected, printed] = LINES.map(|(_, value)| mean(&values(value)));
        let worst = extremes(values(|d| d.worst_excess)).1;
        row(&format!("mean of {} random", n.by_depth.len()), t, [distance, corrected, printed, worst])
    });
    let zeroed = |x: f64| if x.abs() < EXACT { 0.0 } else { x };
    let of_zoo = n.of_zoo.iter().flat_map(|hazard| {
        let numbers = |d: &Depth| [d.distance, d.corrected, d.printed, d.worst_excess].map(zeroed);
        hazard.depths.iter().map(move |d| row(hazard.name, d.t, numbers(d)))
    });
    table(over_mdps.chain(of_zoo))
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
    .caption("Exact values, γ = 1. MDPs: two symbols and EOS legal at every prefix, horizon 4, random bits as rewards, standard normal logits.")
    .columns(1)
    .panel(plane(prefixes, n.mdps))
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
