//! The tables.

use grpo_lambda_stats::table::{Cell, Table};

use super::measure::{LAMBDAS, METHODS, Numbers, TEMPO};

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![(String::new(), rows(n)), ("lambda".into(), lambdas(n))]
}

fn rows(n: &Numbers) -> Table {
    let columns =
        ["task", "family", "group", "method", "variance_over_rloo", "standard_error", "error_at_best_step"];
    let mut table = Table::new(&columns);
    for r in &n.rows {
        for (m, (name, ..)) in METHODS.iter().enumerate() {
            table.push(vec![
                r.task.as_str().into(),
                if r.of_zoo { "zoo" } else { "random" }.into(),
                r.group.into(),
                (*name).into(),
                // Of a biased method the ratio is not one of variances.
                if m == TEMPO { Cell::Empty } else { r.ratio[m].0.into() },
                if m == TEMPO { Cell::Empty } else { r.ratio[m].1.into() },
                r.error[m].into(),
            ]);
        }
    }
    table
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
