//! The tables and the figures.

use super::{GROUP, Numbers, PromptWeight};
use crate::experiments::common::chart::chart;
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_stats::table::Table;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        ("push".into(), Table::from_rows(&n.sums)),
        (String::new(), Table::from_rows(&n.prompts)),
        ("direction".into(), Table::from_rows(&n.effects)),
    ]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![(String::new(), effect(n))]
}

fn effect(n: &Numbers) -> Figure {
    let own = || n.prompts.iter().filter(|w| w.group == GROUP);
    let named = |w: &PromptWeight| if w.clamp.is_some() { "A ≥ -0.1" } else { "unclamped" };
    let of_group = own().map(|w| (w, format!("{}, G = 8", named(w)), w.by_oracle));
    let limits = own().map(|w| (w, format!("{}, large G", named(w)), w.limit));
    let clamped = n.sums.iter().filter(|s| s.clamp.is_some());
    let sums = Panel::new("Sum of a group's advantages")
        .x(Axis::new("right responses of 8").categories((0..=GROUP).map(|k| k.to_string())))
        .y("sum of the advantages Σ A_i")
        .bars("A ≥ -0.1, G = 8", clamped.map(|s| (s.right as f64, s.sum)))
        .hline(0.0, "unclamped");
    let title = "Clamping at -0.1 all but switches off solved prompts and gives mixed groups a net push up";
    let figure = Figure::new(title).caption(
        "Exact, z-scores with TRL's std. Left: one prompt's expected update is w(p) ∇p; at p = 0.95, G = 8 the clamp \
         leaves w = 0.22 of 2.31. Dashed: G → ∞, clamped sqrt((1-p)/p) + min(0.1, sqrt(p/(1-p))). Right: G = 8; \
         unclamped advantages sum to 0.",
    );
    chart(of_group.chain(limits))
        .panels(|_| "Weight of a prompt in the update")
        .x("p, probability of a right response")
        .y(Axis::new("weight w(p), E[update] = w(p) ∇p").log())
        .dashed(
            |name| name.ends_with("large G"),
            |(_, name, _)| name.clone(),
            |(w, _, weight)| (w.p, *weight),
        )
        .on(figure)
        .panel(sums)
}
