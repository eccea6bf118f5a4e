//! The figures.

use super::measure::Numbers;
use crate::experiments::common::vectors::indexed;
use crate::figure::{Axis, Figure, Mark, Panel};

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![("matrices".into(), matrices(n)), (String::new(), column_sums(n))]
}

fn matrices(n: &Numbers) -> Figure {
    let figure = Figure::new("As printed, all rows of a trace matrix repeat the last: weights ignore how old a token is")
        .caption("T = 8, γλ = 0.8, floor 0; grey: above the diagonal; left the equations, right the matrices of the appendix. Eq. 17/18 with n and max(cols) taken as the last column (our reading: the paper does not define them).")
        .panel_size(480, 380);
    n.drawn.iter().map(|(matrix, entries)| heat_map(matrix.name, entries)).fold(figure, Figure::panel)
}

fn heat_map(title: &str, entries: &[Vec<f64>]) -> Panel {
    let causal = |(t, row): (usize, &Vec<f64>)| {
        row.iter().enumerate().map(|(k, &w)| if k > t { f64::NAN } else { w }).collect()
    };
    let tokens = || (0..entries.len()).map(|i| i.to_string());
    Panel::new(title)
        .x(Axis::new("token k whose log-ratio enters").categories(tokens()))
        .y(Axis::new("trace at token t").categories(tokens()))
        .mark(Mark::HeatMap {
            values: entries.iter().enumerate().map(causal).collect(),
            annotate: true,
            range: Some((0.0, 1.0)),
            diverging: false,
            label: "weight E[t,k]".into(),
        })
}

fn column_sums(n: &Numbers) -> Figure {
    let mut figure = Figure::new("Printed matrices weigh otherwise: Eq. 1 favours the first tokens, Eq. 18 those ~100 from the end")
        .caption("Column sums c_k = Σ_t E[t,k], the on-policy weight of token k relative to GRPO; γλ = 0.99, floor 0. Where a line runs into another the two are equal.");
    for columns in n.columns.chunk_by(|a, b| a.len == b.len) {
        let mut panel = Panel::new(format!("T = {}", columns[0].len))
            .x("token k")
            .y(Axis::new("weight c_k (GRPO = 1)").log());
        for c in columns {
            panel = panel.line(c.matrix.name, indexed(&c.sums));
        }
        figure = figure.panel(panel.hline(1.0, "GRPO"));
    }
    figure
}
