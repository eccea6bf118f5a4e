//! The tables.

use grpo_lambda_stats::table::{Cell, Table};
use serde::{Deserialize, Serialize};

use super::measure::{LAMBDAS, METHODS, Numbers, TEMPO};

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![(String::new(), rows(n)), ("lambda".into(), lambdas(n))]
}

/// A row of `prefix_values.csv`.
#[derive(Serialize, Deserialize)]
pub(crate) struct VarianceRow {
    task: String,
    family: String,
    pub(crate) group: usize,
    pub(crate) method: String,
    /// `None` for a biased method, whose ratio is not one of variances.
    pub(crate) variance_over_rloo: Option<f64>,
    standard_error: Option<f64>,
    error_at_best_step: f64,
}

fn rows(n: &Numbers) -> Table {
    Table::from_rows(n.rows.iter().flat_map(|r| {
        METHODS.iter().enumerate().map(|(m, (name, ..))| VarianceRow {
            task: r.task.clone(),
            family: if r.of_zoo { "zoo" } else { "random" }.to_owned(),
            group: r.group,
            method: (*name).to_owned(),
            variance_over_rloo: (m != TEMPO).then_some(r.ratio[m].0),
            standard_error: (m != TEMPO).then_some(r.ratio[m].1),
            error_at_best_step: r.error[m],
        })
    }))
}

fn lambdas(n: &Numbers) -> Table {
    let mut table = Table::new(&["task", "family", "values", "lambda", "error_at_best_step"]);
    for b in &n.by_lambda {
        for (values, errors) in [("from the group", &b.estimated), ("exact", &b.exact)] {
            for (lambda, error) in LAMBDAS.iter().zip(errors) {
                table.push(vec![
                    b.task.as_str().into(),
                    if b.of_zoo { "zoo" } else { "random" }.into(),
                    values.into(),
                    Cell::from(*lambda),
                    (*error).into(),
                ]);
            }
        }
    }
    table
}
