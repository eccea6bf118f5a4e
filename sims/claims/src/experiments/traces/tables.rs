//! The tables.

use grpo_lambda_stats::table::{Cell, Table};

use super::measure::{Columns, Numbers, Q};
use crate::experiments::common::vectors::mean;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let mut columns = Table::new(&["tokens", "q", "style", "matrix", "quantity", "value"]);
    for c in &n.columns {
        for (quantity, value) in quantities(c) {
            let matrix = if c.matrix.printed { "printed" } else { "equation" };
            let place: [Cell; 4] = [c.len.into(), Q.into(), c.matrix.style.into(), matrix.into()];
            columns.push([place.to_vec(), vec![quantity.into(), value.into()]].concat());
        }
    }
    let mut accuracy = Table::new(&["trace", "q", "tokens", "apply", "adjoint", "inner_products"]);
    for a in &n.accuracy {
        accuracy.push(vec![
            a.trace.into(),
            a.q.into(),
            a.len.into(),
            a.forward.into(),
            a.backward.into(),
            a.inner_products.into(),
        ]);
    }
    vec![(String::new(), columns), ("accuracy".into(), accuracy)]
}

/// Column sums at five places, and their mean.
fn quantities(c: &Columns) -> [(&'static str, f64); 6] {
    let (sums, len) = (&c.sums, c.len);
    [
        ("c_0", sums[0]),
        ("c_T/4", sums[len / 4]),
        ("c_T/2", sums[len / 2]),
        ("c_3T/4", sums[3 * len / 4]),
        ("c_T-1", sums[len - 1]),
        ("mean", mean(sums)),
    ]
}
