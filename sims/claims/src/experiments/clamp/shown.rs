//! The tables and the figures.

use super::{ClampEffect, GROUP, Numbers, PromptWeight, TOKEN_WEIGHTS};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::table::Table;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        ("push".into(), Table::from_rows(&n.sums)),
        (String::new(), Table::from_rows(&n.prompts)),
        ("direction".into(), Table::from_rows(&n.effects)),
    ]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![(String::new(), effect(n)), ("direction".into(), direction(n))]
}

fn effect(n: &Numbers) -> Figure {
    Figure::new("Clamping at -0.1 all but switches off solved prompts and gives mixed groups a net push up")
        .caption("Exact, z-scores with TRL's std. Left: one prompt's expected update is w(p) ∇p; at p = 0.95, G = 8 the clamp leaves w = 0.22 of 2.31. Dashed: G → ∞, clamped sqrt((1-p)/p) + min(0.1, sqrt(p/(1-p))). Right: G = 8; unclamped advantages sum to 0.")
        .panel(weights(n))
        .panel(sums(n))
}

fn weights(n: &Numbers) -> Panel {
    let line = |clamped: bool, weight: fn(&PromptWeight) -> f64| {
        let own = n.prompts.iter().filter(move |w| w.group == GROUP && w.clamp.is_some() == clamped);
        own.map(move |w| (w.p, weight(w)))
    };
    Panel::new("Weight of a prompt in the update")
        .x("p, probability of a right response")
        .y(Axis::new("weight w(p), E[update] = w(p) ∇p").log())
        .line("unclamped, G = 8", line(false, |w| w.by_oracle))
        .line("A ≥ -0.1, G = 8", line(true, |w| w.by_oracle))
        .styled_line("unclamped, large G", Style::Dashed, line(false, |w| w.limit))
        .styled_line("A ≥ -0.1, large G", Style::Dashed, line(true, |w| w.limit))
}

fn sums(n: &Numbers) -> Panel {
    let clamped = n.sums.iter().filter(|s| s.clamp.is_some());
    Panel::new("Sum of a group's advantages")
        .x(Axis::new("right responses of 8").categories((0..=GROUP).map(|k| k.to_string())))
        .y("sum of the advantages Σ A_i")
        .bars("A ≥ -0.1, G = 8", clamped.map(|s| (s.right as f64, s.sum)))
        .hline(0.0, "unclamped")
}

fn direction(n: &Numbers) -> Figure {
    let against = n.effects.iter().filter(|t| t.weights == "both" && t.clamped_with_gradient < 0.0).count();
    Figure::new(format!("With a trace the clamp turns the expected update, on {against} MDPs even against ∇J"))
        .caption("Exact expected updates on-policy, constant reduction, λ = 0.99 and clamp -0.1 as in the paper. With uniform weights (GRPO) and binary rewards the angle is 0; chain_partial and the last MDP have real rewards, all others binary ones.")
        .columns(1)
        .panel_size(900, 360)
        .panel(turn(n))
        .panel(usefulness(n))
}

/// The MDPs in the order of the axis.
fn mdps(n: &Numbers) -> Vec<&str> {
    let mut names: Vec<&str> = n.effects.iter().map(|t| t.mdp.as_str()).collect();
    names.dedup();
    names
}

/// A number by MDP under some token weights.
fn by_mdp(n: &Numbers, weights: &str, number: fn(&ClampEffect) -> f64) -> Vec<(f64, f64)> {
    let names = mdps(n);
    let point = |t: &ClampEffect| Some((names.iter().position(|name| *name == t.mdp)? as f64, number(t)));
    n.effects.iter().filter(|t| t.weights == weights).filter_map(point).collect()
}

fn turn(n: &Numbers) -> Panel {
    let mut panel = Panel::new("Turn: angle between clamped and unclamped expected update, G = 8")
        .x(Axis::new("MDP").categories(mdps(n)))
        .y("angle (degrees)");
    for (weights, _, _) in TOKEN_WEIGHTS {
        let degrees = by_mdp(n, weights, |t| t.cosine.clamp(-1.0, 1.0).acos().to_degrees());
        panel = panel.points(weights, degrees);
    }
    panel
}

fn usefulness(n: &Numbers) -> Panel {
    Panel::new("Usefulness: cosine of the expected update with ∇J, trace of style both (below 0: against ∇J)")
        .x(Axis::new("MDP").categories(mdps(n)))
        .y(Axis::new("cosine with ∇J").range(-1.05, 1.05))
        .points("both, unclamped", by_mdp(n, "both", |t| t.unclamped_with_gradient))
        .points("both, A ≥ -0.1", by_mdp(n, "both", |t| t.clamped_with_gradient))
        .hline(0.0, "")
}
