//! The tables and the figure.

use super::measure::{AtScale, MDPS, SCALES};
use super::{Gradient, Numbers};
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{EXACT, indexed};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::table::Table;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        ("hand".into(), table(n.hand.rows.iter().map(hand_row))),
        ("distance".into(), Table::from_rows(&n.states.at_scales)),
        ("responses".into(), Table::from_rows(&n.responses.rows)),
    ]
}

fn hand_row(row: &Gradient) -> Record {
    let named = Record::default().with("in the loss", row.name);
    let actions = row.gradient.iter().zip(1..);
    actions
        .fold(named, |record, (x, a)| {
            record.with(format!("action_{a}"), if x.abs() < EXACT { 0.0 } else { *x })
        })
        .with("variance", row.variance)
        .with("cosine_with_reverse", row.cosine)
}

/// The estimators that have a direction.
const SHOWN: [&str; 3] = ["k2", "k3", "ratio_k3"];

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let figure = Figure::new(
        "k3 as a loss descends KL(ref||π), not KL(π||ref); per state k2 and ratio·k3 are right",
    )
    .caption(format!(
        "Exact expectations, on-policy. Top right and bottom left: {} pairs of 3-action softmax policies per \
             distance, median, band 10-90 % (k3). Bottom right: registered methods on MDPs, \
             against the KL of whole responses.",
        n.states.pairs / SCALES.len()
    ))
    .names(SHOWN)
    .panel(hand(n))
    .panel(length(n))
    .panel(angle(n))
    .panel(whole(n));
    vec![(String::new(), figure)]
}

fn hand(n: &Numbers) -> Panel {
    let mut panel = Panel::new("One state by hand: expected gradient (k1: 0, 0, 0)")
        .x(Axis::new("action").categories(["1", "2", "3"]))
        .y("E[∂ estimator / ∂ logit]");
    for row in n.hand.rows.iter().filter(|row| SHOWN.contains(&row.name)) {
        panel = panel.bars(row.name, indexed(&row.gradient));
    }
    panel
}

fn distance_axis() -> Axis {
    Axis::new("KL(π||ref), median of the pairs (nats)").log()
}

fn length(n: &Numbers) -> Panel {
    let panel = Panel::new("Random states: length relative to ∇KL(π||ref)")
        .x(distance_axis())
        .y(Axis::new("|E ∇ estimator| / |∇KL(π||ref)|").log());
    along_distance(n, panel, |at| [at.norm_ratio_p10, at.norm_ratio, at.norm_ratio_p90].map(Some))
}

fn angle(n: &Numbers) -> Panel {
    let panel = Panel::new("Random states: cosine with ∇KL(π||ref)")
        .x(distance_axis())
        .y(Axis::new("cosine").range(0.0, 1.05));
    along_distance(n, panel, |at| [at.cosine_p10, at.cosine, at.cosine_p90])
}

/// Medians against the distance, with the quantiles of k3.
fn along_distance(n: &Numbers, panel: Panel, quantiles: fn(&AtScale) -> [Option<f64>; 3]) -> Panel {
    let own = |name: &'static str| n.states.at_scales.iter().filter(move |at| at.estimator == name);
    SHOWN.into_iter().fold(panel, |panel, name| {
        let band = own(name).filter_map(|at| Some((at.median_kl, quantiles(at)[0]?, quantiles(at)[2]?)));
        let panel = if name == "k3" { panel.band(name, band) } else { panel };
        let style = if name == "ratio_k3" { Style::Dashed } else { Style::Solid };
        panel.styled_line(name, style, own(name).filter_map(|at| Some((at.median_kl, quantiles(at)[1]?))))
    })
}

fn whole(n: &Numbers) -> Panel {
    let panel = Panel::new("Whole responses: cosine with ∇KL(π||ref)")
        .x(Axis::new("MDP").categories(MDPS))
        .y(Axis::new("cosine").range(0.0, 1.0));
    SHOWN.into_iter().fold(panel, |panel, name| {
        let own = n.responses.rows.iter().filter(|r| r.estimator == name).enumerate();
        panel.bars(name, own.filter_map(|(k, r)| Some((k as f64, r.reverse?))))
    })
}
