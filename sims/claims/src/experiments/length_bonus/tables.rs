//! The tables.

use grpo_lambda_stats::table::{Cell, Table};
use serde::{Deserialize, Serialize};

use super::measure::Numbers;
use crate::experiments::common::vectors::EXACT;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![(String::new(), by_lambda(n)), ("slope".into(), slopes(n)), ("horizon".into(), horizons(n))]
}

/// What rounding leaves is a bound, so that the committed numbers do not depend on the machine.
fn below(difference: f64) -> Cell {
    if difference < EXACT { EXACT } else { difference }.into()
}

fn by_lambda(n: &Numbers) -> Table {
    let mut table = Table::new(&[
        "lambda",
        "updates",
        "largest_difference_to_formula_below",
        "largest_relative_difference_to_bonus_below",
        "cosine_with_length_gradient_least",
        "cosine_with_length_gradient_mean",
        "norm_over_bonus_mean",
    ]);
    for at in &n.noise {
        table.push(vec![
            at.lambda.into(),
            at.cases.into(),
            below(at.off_noise),
            below(at.off_bonus),
            at.cosine[0].into(),
            at.cosine[1].into(),
            at.norm.into(),
        ]);
    }
    table
}

fn slopes(n: &Numbers) -> Table {
    let columns = [
        "update",
        "style",
        "reduction",
        "clamp",
        "lambda",
        "success_rate",
        "slope_of_length",
        "multiple_of_length_gradient",
        "cosine_with_length_gradient",
    ];
    let mut table = Table::new(&columns);
    for s in &n.slopes {
        table.push(vec![
            s.update.into(),
            s.style.into(),
            s.reduction.into(),
            s.clamp.into(),
            s.lambda.into(),
            s.rate.into(),
            s.slope.into(),
            s.multiple.into(),
            s.cosine.map_or("none".into(), Cell::from),
        ]);
    }
    table
}

/// A row of `length_bonus_horizon.csv`.
#[derive(Serialize, Deserialize)]
pub(crate) struct HorizonRow {
    pub(crate) policy: String,
    pub(crate) horizon: usize,
    pub(crate) mean_length: f64,
    pub(crate) arm: String,
    pub(crate) cosine_with_gradient: f64,
    pub(crate) cosine_with_length_gradient: f64,
}

fn horizons(n: &Numbers) -> Table {
    Table::from_rows(n.sweep.iter().map(|p| HorizonRow {
        policy: p.policy.to_owned(),
        horizon: p.horizon,
        mean_length: p.mean_length,
        arm: p.arm.to_owned(),
        cosine_with_gradient: p.cosine,
        cosine_with_length_gradient: p.cosine_length,
    }))
}
