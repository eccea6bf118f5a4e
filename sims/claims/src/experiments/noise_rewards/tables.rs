//! The table.

use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::Table;
use serde::{Deserialize, Serialize};

use super::measure::Numbers;

/// A row of `noise_rewards.csv`.
#[derive(Serialize, Deserialize)]
pub(crate) struct ArmRow {
    pub(crate) optimiser: String,
    pub(crate) lambda: f64,
    pub(crate) part: String,
    pub(crate) clamp: f64,
    mean_advantage: f64,
    seeds: usize,
    pub(crate) change: f64,
    change_low: f64,
    change_high: f64,
    predicted: Option<f64>,
    beyond: Option<f64>,
    beyond_low: Option<f64>,
    beyond_high: Option<f64>,
    together_low: f64,
    together_high: f64,
    grad_norm: f64,
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let rows = n.arms.iter().map(|a| {
        let predicted = |end: fn([Interval; 2]) -> f64| a.predicted.map(end);
        ArmRow {
            optimiser: a.optimiser.clone(),
            lambda: a.lambda,
            part: a.part.clone(),
            clamp: a.clamp,
            mean_advantage: a.mean_advantage,
            seeds: n.seeds,
            change: a.change.mid,
            change_low: a.change.low,
            change_high: a.change.high,
            predicted: predicted(|[by_theorem, _]| by_theorem.mid),
            beyond: predicted(|[_, beyond]| beyond.mid),
            beyond_low: predicted(|[_, beyond]| beyond.low),
            beyond_high: predicted(|[_, beyond]| beyond.high),
            together_low: a.together.low,
            together_high: a.together.high,
            grad_norm: a.grad_norm,
        }
    });
    vec![(String::new(), Table::from_rows(rows))]
}
