//! The tables and the figure.

use super::findings::{TRACE, label};
use super::updates::{PLACES, Update};
use super::{Arm, Numbers, REFERENCE, Reading, exponential};
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::Table;
use serde::{Deserialize, Serialize};

/// A row of `chain.csv`.
#[derive(Serialize, Deserialize)]
pub(crate) struct ArmRow {
    pub(crate) cell: String,
    pub(crate) arm: String,
    rate: f64,
    pub(crate) seeds: usize,
    /// Runs that did not reach the target.
    missed: usize,
    /// Seeds on which the arm or RLOO reached it.
    pub(crate) pairs: Option<usize>,
    /// Tokens over RLOO's.
    pub(crate) tokens: Option<f64>,
    pub(crate) tokens_low: Option<f64>,
    pub(crate) tokens_high: Option<f64>,
    p: Option<f64>,
    corrected: Option<f64>,
    reading: String,
    /// The share of the oracle's gain over GRPO, on the scale of logarithms of tokens.
    pub(crate) share: Option<f64>,
    pub(crate) share_low: Option<f64>,
    pub(crate) share_high: Option<f64>,
}

/// A row of `chain_updates.csv`.
#[derive(Serialize, Deserialize)]
pub(crate) struct UpdateRow {
    pub(crate) place: String,
    pub(crate) arm: String,
    pub(crate) seeds: usize,
    pub(crate) noise: f64,
    pub(crate) noise_low: f64,
    pub(crate) noise_high: f64,
    cosine: f64,
    cosine_low: f64,
    cosine_high: f64,
    credit_after_over_before: f64,
    pub(crate) rank_correlation: Option<f64>,
}

fn words(reading: Option<Reading>) -> &'static str {
    match reading {
        Some(Reading::Fewer) => "fewer tokens",
        Some(Reading::More) => "more tokens",
        Some(Reading::Equivalent) => "equivalent",
        Some(Reading::NotTold) => "not told",
        None => "",
    }
}

/// The arms of which something may be said: the controls alone where the gate is not passed.
fn shown(n: &Numbers) -> impl Iterator<Item = (&str, &Arm)> {
    let valid = !n.valid().is_empty();
    let arms = n.cells.iter().flat_map(|cell| cell.arms.iter().map(|arm| (cell.name.as_str(), arm)));
    arms.filter(move |(_, arm)| valid || [REFERENCE, super::ORACLE, super::ANTI].contains(&arm.name.as_str()))
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let share = |cell: &str, arm: &Arm| {
        let is_end = [super::GRPO, super::ORACLE].contains(&arm.name.as_str()) || n.valid().is_empty();
        n.cell(cell).filter(|_| !is_end)?.share_of_headroom(&arm.name)
    };
    let arms = shown(n).map(|(cell, arm)| {
        let over = arm.over_reference.as_ref().map(|c| exponential(c.interval));
        let share = share(cell, arm);
        ArmRow {
            cell: cell.to_owned(),
            arm: arm.name.clone(),
            rate: arm.rate,
            seeds: arm.runs.len(),
            missed: arm.missed(),
            pairs: arm.over_reference.as_ref().map(|c| c.pairs),
            tokens: over.map(|i| i.mid),
            tokens_low: over.map(|i| i.low),
            tokens_high: over.map(|i| i.high),
            p: arm.over_reference.as_ref().map(|c| c.p),
            corrected: arm.corrected,
            reading: if n.valid().is_empty() { "" } else { words(arm.reading()) }.to_owned(),
            share: share.map(|i| i.mid),
            share_low: share.map(|i| i.low),
            share_high: share.map(|i| i.high),
        }
    });
    let updates = n.updates.iter().map(|u| UpdateRow {
        place: u.place.clone(),
        arm: u.arm.clone(),
        seeds: u.seeds,
        noise: u.noise.mid,
        noise_low: u.noise.low,
        noise_high: u.noise.high,
        cosine: u.cosine.mid,
        cosine_low: u.cosine.low,
        cosine_high: u.cosine.high,
        credit_after_over_before: u.after_over_before,
        rank_correlation: u.rank_correlation,
    });
    let named = |name: &str, table: Table| (name.to_owned(), table);
    let arms = (shown(n).next().is_some()).then(|| named("", Table::from_rows(arms)));
    let updates = (!n.updates.is_empty()).then(|| named("updates", Table::from_rows(updates)));
    arms.into_iter().chain(updates).collect()
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let Some(first) = n.cells.first().map(|cell| cell.name.as_str()) else { return Vec::new() };
    let arms: Vec<&Arm> = shown(n).filter(|(cell, _)| *cell == first).map(|(_, arm)| arm).collect();
    let compared =
        || arms.iter().filter_map(|arm| Some((arm, exponential(arm.over_reference.as_ref()?.interval))));
    let tokens = Panel::new("Tokens to the target")
        .x(Axis::new("arm").categories(compared().map(|(arm, _)| label(&arm.name))))
        .y(Axis::new("tokens over RLOO's").log())
        .intervals(
            "95 % over seeds",
            compared().zip(0..).map(|((_, i), k)| (f64::from(k), i.low, i.mid, i.high)),
        )
        .hline(1.0, "RLOO");
    let figure = Figure::new(title(n))
        .caption("A small transformer on chains of eight operations. Tokens: to the target over RLOO's, geometric mean over paired seeds. Noise: the variance of an update at the scale at which its mean goes as far along the gradient as the gradient itself. Noise and cosine are means over seeds with Student's t at 95 %. Exact credit, and the same at other steps of its response, are the controls.")
        .columns(1)
        .panel_size(760, 280)
        .panel(tokens);
    let figure = match n.updates.is_empty() {
        true => figure,
        false => figure
            .panel(of_updates(n, "Noise of an update", "noise over RLOO's", |u| u.noise))
            .panel(of_updates(n, "Direction of the mean update", "cosine over RLOO's", |u| u.cosine)),
    };
    vec![(String::new(), figure)]
}

fn title(n: &Numbers) -> String {
    let trace = n.updates.iter().find(|u| u.arm == TRACE);
    let noise = trace
        .map_or(String::new(), |u| format!("; the trace takes no noise away ({:.1} of RLOO's)", u.noise.mid));
    match n.gate() {
        Some(gate) if gate.is_passed() => {
            let share = n.cells[0].share_of_headroom(TRACE).map_or(noise, |i| {
                format!(
                    "; the trace takes {:.0} % of its gain over GRPO ({:.0} to {:.0})",
                    100.0 * i.mid,
                    100.0 * i.low,
                    100.0 * i.high
                )
            });
            format!("Exact credit needs {:.2} of RLOO's tokens on chains{share}", gate.oracle.mid)
        }
        Some(gate) => format!(
            "Exact credit needs {:.2} of RLOO's tokens on chains: too many to conclude anything",
            gate.oracle.mid
        ),
        None => "Updates on chains whose first error is known".to_owned(),
    }
}

fn of_updates(n: &Numbers, name: &str, y: &str, number: fn(&Update) -> Interval) -> Panel {
    let has_update = |arm: &&str| *arm != REFERENCE && n.updates.iter().any(|u| u.arm == *arm);
    let arms: Vec<&str> = n.protocol.arms.iter().map(|arm| arm.name.as_str()).filter(has_update).collect();
    let panel = Panel::new(name)
        .x(Axis::new("arm").categories(arms.iter().map(|arm| label(arm))))
        .y(y)
        .hline(1.0, "RLOO");
    PLACES.iter().zip([-0.2, 0.0, 0.2]).fold(panel, |panel, (place, aside)| {
        let intervals = arms.iter().zip(0..).filter_map(|(arm, k)| {
            let i = number(n.updates.iter().find(|u| u.arm == *arm && u.place == *place)?);
            Some((f64::from(k) + aside, i.low, i.mid, i.high))
        });
        panel.intervals(*place, intervals.collect::<Vec<_>>())
    })
}
