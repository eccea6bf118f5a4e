//! The figures.

use super::findings::violations;
use super::measure::Numbers;
use super::prefixes::{Depth, HORIZON, Prefix};
use crate::experiments::common::vectors::{mean, quantile};
use crate::figure::{Axis, Figure, Panel, Style};

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

/// A name and what it stands for at one depth.
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
    n.of_zoo.iter().map(|hazard| of_one(hazard.name, &hazard.depths)).fold(figure, Figure::panel)
}

fn over_mdps(by_depth: &[Vec<Depth>]) -> Panel {
    let mut panel = Panel::new(format!("{} random MDPs", by_depth.len()))
        .x(Axis::new("t (tokens)").categories((0..HORIZON).map(|t| t.to_string())))
        .y(Axis::new("difference of values").range(-0.02, 1.0));
    for (k, (name, of)) in LINES.into_iter().enumerate() {
        let at = |t: usize| by_depth.iter().map(|d| of(&d[t])).collect::<Vec<f64>>();
        if k < 2 {
            panel = panel
                .band(name, (0..HORIZON).map(|t| (t as f64, quantile(&at(t), 0.1), quantile(&at(t), 0.9))));
        }
        panel = panel.styled_line(name, style(k), (0..HORIZON).map(|t| (t as f64, mean(&at(t)))));
    }
    panel
}

fn of_one(title: &str, depths: &[Depth]) -> Panel {
    let mut panel = Panel::new(title).x("t (tokens)").y(Axis::new("difference of values").range(-0.02, 1.0));
    for (k, (name, of)) in LINES.into_iter().enumerate() {
        panel = panel.styled_line(name, style(k), depths.iter().map(|d| (d.t as f64, of(d))));
    }
    panel
}
