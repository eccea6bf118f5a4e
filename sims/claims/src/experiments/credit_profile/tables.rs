//! The tables.

use grpo_lambda_stats::table::{Cell, Table};

use super::measure::{BETA, LEN, Numbers, OfReading};
use crate::experiments::common::vectors::mean;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![("readings".into(), readings(n)), (String::new(), sizes(n))]
}

fn readings(n: &Numbers) -> Table {
    let mut table = Table::new(&[
        "update",
        "soft_clamp",
        "soft_gradient",
        "style",
        "matrix",
        "normalise",
        "delta",
        "c_0",
        "c_T/4",
        "c_T/2",
        "c_3T/4",
        "c_T-1",
        "mean",
        "relative_error_of_closed_form",
    ]);
    for OfReading { reading, weights, error } in &n.readings {
        let (update, soft, gradient) = match reading.weight {
            None => ("trace", "", ""),
            Some((soft, gradient)) => ("weight", soft, if gradient { "true" } else { "false" }),
        };
        let mut row: Vec<Cell> = vec![update.into(), soft.into(), gradient.into()];
        row.extend([reading.style(), reading.matrix, reading.normalise, reading.delta()].map(Cell::from));
        row.extend([0, LEN / 4, LEN / 2, 3 * LEN / 4, LEN - 1].map(|k| Cell::from(weights[k])));
        row.extend([mean(weights).into(), Cell::from(*error)]);
        table.push(row);
    }
    table
}

fn sizes(n: &Numbers) -> Table {
    let mut table =
        Table::new(&["tokens", "lambda", "style", "mean_weight", "effective_beta", "kl_gradient_over_grpo"]);
    for s in &n.sizes {
        table.push(vec![
            s.len.into(),
            s.lambda.into(),
            s.style.into(),
            s.factor.into(),
            (BETA / s.factor).into(),
            s.kl.into(),
        ]);
    }
    table
}
