//! The table and the figure.

use super::findings::SETS;
use super::{Effect, Numbers, SYSTEMATIC, Trial};
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_stats::table::Table;
use serde::{Deserialize, Serialize};

/// A row of `addition.csv`.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ArmRow {
    pub(crate) protocol: String,
    pub(crate) arm: String,
    rate: f64,
    pub(crate) seeds: usize,
    pub(crate) mean: f64,
    pub(crate) difference: Option<f64>,
    pub(crate) difference_low: Option<f64>,
    pub(crate) difference_high: Option<f64>,
    p: Option<f64>,
}

/// A row of `addition_variance.csv`.
#[derive(Serialize, Deserialize)]
pub(crate) struct ShareRow {
    pub(crate) method: String,
    pub(crate) start: f64,
    start_low: f64,
    start_high: f64,
    pub(crate) after_rl: f64,
    after_rl_low: f64,
    after_rl_high: f64,
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let arms = n.trials.iter().flat_map(|trial| {
        trial.arms.iter().map(|arm| ArmRow {
            protocol: trial.name.to_owned(),
            arm: arm.name.clone(),
            rate: arm.rate,
            seeds: arm.values.len(),
            mean: arm.mean,
            difference: arm.over_first.as_ref().map(|d| d.interval.mid),
            difference_low: arm.over_first.as_ref().map(|d| d.interval.low),
            difference_high: arm.over_first.as_ref().map(|d| d.interval.high),
            p: arm.over_first.as_ref().map(|d| d.p),
        })
    });
    let shares = n.shares.iter().map(|share| ShareRow {
        method: share.method.clone(),
        start: share.at_start.mid,
        start_low: share.at_start.low,
        start_high: share.at_start.high,
        after_rl: share.after_rl.mid,
        after_rl_low: share.after_rl.low,
        after_rl_high: share.after_rl.high,
    });
    vec![(String::new(), Table::from_rows(arms)), ("variance".into(), Table::from_rows(shares))]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let figure = Figure::new(title(n))
        .caption("A small transformer. Left: variance of the gradient of a group of 16 over RLOO's, 48 seeds, 95 % for the fourteen measurements together. The others: the difference from the first arm of a protocol, paired over 12 seeds, at the level that holds for its comparisons together.")
        .columns(2)
        .panel_size(460, 300)
        .panel(variance(n));
    let compared = n.trials.iter().filter(|trial| trial.arms.len() > 1);
    vec![(String::new(), compared.fold(figure, |figure, trial| figure.panel(differences(trial))))]
}

fn title(n: &Numbers) -> String {
    let Some(share) = n.shares.iter().find(|share| share.method == SETS) else { return String::new() };
    let trial = &n.trials[SYSTEMATIC];
    let learning = match trial.arm(SETS).and_then(|arm| arm.effect(&trial.protocol)) {
        Some(Effect::Higher) => ", and teach faster",
        Some(Effect::Lower | Effect::Equivalent) => ", and teach no faster",
        Some(Effect::Inconclusive) | None => "",
    };
    format!(
        "On addition systematic groups keep {:.2} of RLOO's variance at the start, {:.2} after RL{learning}",
        share.at_start.mid, share.after_rl.mid
    )
}

fn variance(n: &Numbers) -> Panel {
    let places = |of: fn(&super::Share) -> grpo_lambda_stats::Interval, aside: f64| {
        n.shares.iter().zip(0..).map(move |(share, k)| {
            let i = of(share);
            (f64::from(k) + aside, i.low, i.mid, i.high)
        })
    };
    Panel::new("Variance")
        .x(Axis::new("method").categories(n.shares.iter().map(|share| share.method.replace("_rloo", ""))))
        .y("variance over RLOO's")
        .intervals("at the start", places(|s| s.at_start, -0.1))
        .intervals("after RL", places(|s| s.after_rl, 0.1))
        .hline(1.0, "RLOO")
}

fn differences(trial: &Trial) -> Panel {
    let arms = || trial.arms.iter().filter_map(|arm| Some((arm, arm.over_first.as_ref()?.interval)));
    Panel::new(format!("Protocol: {}", trial.name))
        .x(Axis::new("arm").categories(arms().map(|(arm, _)| arm.name.clone())))
        .y(format!("difference of the {}", trial.protocol.measure.words()))
        .intervals("difference", arms().zip(0..).map(|((_, i), k)| (f64::from(k), i.low, i.mid, i.high)))
        .hline(0.0, trial.arms.first().map_or("", |arm| arm.name.as_str()))
}
