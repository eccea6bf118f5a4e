//! Tables and figures.

use super::Numbers;
use super::corrected::{Depth, HORIZON, Prefix};
use super::findings::violations;
use crate::experiments::common::chart::chart;
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{EXACT, extremes, mean};
use crate::figure::{Axis, Figure, Style};
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
        let means = |f| mean(&values(f));
        let worst = extremes(values(|d| d.worst_excess)).1;
        let numbers = [means(|d| d.distance), means(|d| d.corrected), means(|d| d.printed), worst];
        row(&format!("mean of {} random", n.by_depth.len()), t, numbers)
    });
    let zeroed = |x: f64| if x.abs() < EXACT { 0.0 } else { x };
    let of_zoo = n.of_zoo.iter().flat_map(|hazard| {
        let numbers = |d: &Depth| [d.distance, d.corrected, d.printed, d.worst_excess].map(zeroed);
        hazard.depths.iter().map(move |d| row(hazard.name, d.t, numbers(d)))
    });
    table(over_mdps.chain(of_zoo))
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let prefixes = &n.families[0].prefixes;
    let (over, worst) = violations(prefixes);
    let figure = Figure::new(format!(
        "Lemma 1 as printed fails: {over} of {} prefixes lie above its bound, by up to {worst:.2}; two tokens suffice",
        prefixes.len()
    ))
    .caption(
        "Exact values, γ = 1. MDPs: two symbols and EOS legal at every prefix, horizon 4, random bits as rewards, \
         standard normal logits.",
    )
    .columns(1);
    let axis = Axis::new("printed bound 1 - Π (1 - π(EOS|s))").range(-0.04, 1.04);
    let figure = chart(prefixes)
        .panels(|_| format!("{} prefixes of {} random MDPs", prefixes.len(), n.mdps))
        .x(axis)
        .y(Axis::new("V(s₀) - V(s)").range(-1.0, 1.0))
        .points(|p| if p.violates() { "above the bound" } else { "within the bound" }, |p| (p.bound, p.gap))
        .each(|panel, _| panel.styled_line("V(s₀) - V(s) = bound", Style::Dashed, [(0.0, 0.0), (1.0, 1.0)]))
        .on(figure.names(["within the bound", "above the bound"]));
    vec![(String::new(), figure)]
}
