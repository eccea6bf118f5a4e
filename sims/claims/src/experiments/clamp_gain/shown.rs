//! The tables and the figure.

use super::findings::{best_of_grid, cells};
use super::measure::{ARMS, CLAMPED, Kind};
use super::{Numbers, Outcome, RUNS};
use crate::experiments::common::record::{Record, table};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::table::Table;
use serde::{Deserialize, Serialize};

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let rows = n.cells.iter().flat_map(|c| (0..ARMS.len()).map(|arm| row(c, arm)));
    let weights = n.weights.iter().flat_map(|&(success_rate, weights)| {
        ARMS.iter().zip(weights).map(move |(arm, multiple_of_gradient)| WeightRow {
            success_rate,
            arm: arm.name.to_owned(),
            multiple_of_gradient,
        })
    });
    vec![(String::new(), table(rows)), ("weights".into(), Table::from_rows(weights))]
}

fn row(c: &Outcome, arm: usize) -> Record {
    let clamp = arm == CLAMPED;
    Record::default()
        .with("policy", if c.shared { "shared" } else { "table" })
        .with("optimiser", c.kind.name())
        .with("rate_over_best_of_grpo", c.ratio)
        .with("rate", c.rate)
        .with("arm", ARMS[arm].name)
        .with("final_j", c.last[arm])
        .with("updates_to_80", c.updates_to_learned(arm))
        .interval("gain", c.gain[arm].interval)
        .with("p_of_clamp", clamp.then_some(c.gain[arm].p))
        .with("p_holm_of_clamp", clamp.then_some(c.gain[arm].corrected))
}

/// A row of `clamp_gain_weights.csv`.
#[derive(Serialize, Deserialize)]
pub(crate) struct WeightRow {
    pub(crate) success_rate: f64,
    pub(crate) arm: String,
    pub(crate) multiple_of_gradient: f64,
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let clamp = CLAMPED;
    let clear = |up: bool| {
        n.cells
            .iter()
            .filter(|c| {
                c.shared && c.gain[clamp].corrected <= 0.05 && (c.gain[clamp].interval.mid > 0.0) == up
            })
            .count()
    };
    let all = n.cells.iter().filter(|c| c.shared).count();
    let mut figure = Figure::new(format!(
        "On a small network with shared parameters the clamp helps at {} and hurts at {} of {all} settings",
        clear(true),
        clear(false)
    ))
    .caption(format!(
        "Mean J over {} updates (area) minus that of GRPO, updates of 8 prompts x 8 answers: sums of two digits modulo 10, start J = 0.4; {RUNS} paired runs, bars: Student's t, 95 %, \
         not corrected (the title is, after Holm over all cells). Rates over {}. Top right, exact: the expected update of a prompt as a multiple of ∇p.",
        n.updates,
        best_of_grid(n, &[true, false])
    ))
    .columns(3)
    .panel_size(360, 250);
    for kind in Kind::ALL {
        figure = figure.panel(gains(n, true, kind));
    }
    let mut weights = Panel::new("Weight of a prompt, G = 8")
        .x("success rate of the prompt")
        .y(Axis::new("multiple of ∇p"));
    for (arm, which) in ARMS.iter().enumerate() {
        weights = weights.styled_line(which.name, Style::Solid, n.weights.iter().map(|(p, w)| (*p, w[arm])));
    }
    figure = figure.panel(weights);
    for kind in Kind::ALL {
        figure = figure.panel(gains(n, false, kind));
    }
    vec![(String::new(), figure)]
}

fn gains(n: &Numbers, shared: bool, kind: Kind) -> Panel {
    let policy = if shared { "shared network" } else { "table, same start" };
    let cells = cells(n, shared, kind);
    let names = cells
        .iter()
        .map(|c| if c.ratio < 1.0 { format!("1/{}", 1.0 / c.ratio) } else { c.ratio.to_string() });
    let mut panel = Panel::new(format!("{policy}, {}", kind.name()))
        .x(Axis::new("learning rate / GRPO's best").categories(names))
        .y(Axis::new("gain in area under J"));
    // The other arms are compared with the first; its name keeps its colour for the last panel.
    for (arm, which) in ARMS.iter().enumerate() {
        let points = cells.iter().enumerate().filter(|_| arm > 0).map(|(k, c)| {
            let g = c.gain[arm].interval;
            (k as f64 + 0.18 * (arm as f64 - 2.5), g.low, g.mid, g.high)
        });
        panel = panel.intervals(which.name, points);
    }
    panel.hline(0.0, "GRPO")
}
