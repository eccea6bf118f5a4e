//! `traces`: the matrices of Eq. 17/18 against those of Eq. 1/2, and linear time against dense.

use grpo_lambda::table::Table;
use grpo_lambda::trace::{
    AsPrinted, Both, Recent, RowIndex, RowNormalised, Sequence, Style, Token, Trace, dense,
};

use super::common::{EXACT, finding, gap, holds_or, mean, short, stream, symmetric};
use crate::experiment::{Context, Experiment, Report};
use crate::figure::{Axis, Figure, Panel};

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    id: "traces",
    title: "The printed trace matrices are not those of Eq. 1 and Eq. 2",
    claim: "\"Trace matrix is a non-learnable precomputed lower-triangular matrix with 1s on the leading diagonal. The two variants of GRPO-λ uses recent and both styles for the trace-weights, which is computed with get_trace().\" (Eq. 17 for both, Eq. 18 for recent)",
    source: "GRPO-lambda (arXiv 2510.00194v1), Appendix A.3 \"Trace weights\", Eq. 17-18, against Eq. 1-2",
    run,
};

const LEN: usize = 256;
const Q: f64 = 0.99;

fn printed(q: f64, style: Style) -> AsPrinted {
    AsPrinted { q, floor: 0.0, style, max_length: None }
}

fn equation(q: f64, style: Style) -> Box<dyn Trace> {
    match style {
        Style::Recent => Box::new(Recent { q }),
        Style::Both => Box::new(Both { q }),
    }
}

/// The rows in which two traces agree to rounding.
fn equal_rows(a: &dyn Trace, b: &dyn Trace, len: usize) -> Vec<usize> {
    let (a, b) = (dense(a, len), dense(b, len));
    (0..len).filter(|&t| gap(&a[t], &b[t]) < 1e-13).collect()
}

/// Largest differences of the O(T) maps from the dense matrix, and of `<y, E x>` from `<Eᵀ y, x>`.
fn against_dense(trace: &dyn Trace, len: usize, seed: u64) -> (f64, f64, f64) {
    let mut rng = stream(seed, len as u64);
    let x: Vec<f64> = (0..len).map(|_| symmetric(&mut rng)).collect();
    let y: Vec<f64> = (0..len).map(|_| symmetric(&mut rng)).collect();
    let matrix = dense(trace, len);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let forward: Vec<f64> = matrix.iter().map(|row| dot(row, &x)).collect();
    let backward: Vec<f64> = (0..len).map(|k| (0..len).map(|t| matrix[t][k] * y[t]).sum()).collect();
    let (z, g) = (trace.apply(&x), trace.adjoint(&y));
    (gap(&z, &forward), gap(&g, &backward), (dot(&y, &z) - dot(&g, &x)).abs())
}

/// The traces of a given `q`, by name.
fn every(q: f64) -> Vec<(&'static str, Box<dyn Trace>)> {
    vec![
        ("token", Box::new(Token)),
        ("recent", Box::new(Recent { q })),
        ("both", Box::new(Both { q })),
        ("printed recent", Box::new(printed(q, Style::Recent))),
        ("printed both", Box::new(printed(q, Style::Both))),
        ("row index recent, floor 0.01", Box::new(RowIndex { q, floor: 0.01, style: Style::Recent })),
        ("row index both, floor 0.01", Box::new(RowIndex { q, floor: 0.01, style: Style::Both })),
        ("sequence", Box::new(Sequence)),
        ("normalised recent", Box::new(RowNormalised(Recent { q }))),
        ("normalised both", Box::new(RowNormalised(Both { q }))),
    ]
}

fn run(context: &Context) -> anyhow::Result<Report> {
    let mut accuracy = Table::new(&["trace", "q", "tokens", "apply", "adjoint", "inner_products"]);
    let mut worst = 0.0f64;
    for q in [0.0, 0.3, 0.9, 0.98, 0.99, 1.0] {
        for (name, trace) in every(q) {
            // A single entry of a normalised matrix costs a whole row.
            let longest = if name.starts_with("normalised") { 64 } else { 257 };
            for len in [1, 2, 3, 8, 33, longest] {
                let (forward, backward, adjoint) = against_dense(trace.as_ref(), len, context.seed);
                worst = worst.max(forward).max(backward).max(adjoint);
                accuracy.push(vec![
                    name.into(),
                    q.into(),
                    len.into(),
                    forward.into(),
                    backward.into(),
                    adjoint.into(),
                ]);
            }
        }
    }
    (context.progress)(0.5, "column sums");

    let mut columns = Table::new(&["tokens", "q", "style", "matrix", "quantity", "value"]);
    let positions = |len: usize| {
        [("c_0", 0), ("c_T/4", len / 4), ("c_T/2", len / 2), ("c_3T/4", 3 * len / 4), ("c_T-1", len - 1)]
    };
    for len in [256, 768] {
        for (word, style) in [("recent", Style::Recent), ("both", Style::Both)] {
            let literal = printed(Q, style);
            for (matrix, sums) in
                [("equation", equation(Q, style).column_sums(len)), ("printed", literal.column_sums(len))]
            {
                for (quantity, k) in positions(len) {
                    columns.push(vec![
                        len.into(),
                        Q.into(),
                        word.into(),
                        matrix.into(),
                        quantity.into(),
                        sums[k].into(),
                    ]);
                }
                columns.push(vec![
                    len.into(),
                    Q.into(),
                    word.into(),
                    matrix.into(),
                    "mean".into(),
                    mean(&sums).into(),
                ]);
            }
        }
    }

    let rows_recent = equal_rows(&Recent { q: Q }, &printed(Q, Style::Recent), LEN);
    let rows_both = equal_rows(&Both { q: Q }, &printed(Q, Style::Both), LEN);
    let index_gap = [Style::Recent, Style::Both]
        .map(|style| {
            let row = RowIndex { q: Q, floor: 0.0, style };
            dense(&row, LEN)
                .iter()
                .zip(dense(equation(Q, style).as_ref(), LEN))
                .map(|(a, b)| gap(a, &b))
                .fold(0.0, f64::max)
        })
        .into_iter()
        .fold(0.0, f64::max);
    let largest = |style| {
        dense(&printed(Q, style), LEN)
            .iter()
            .zip(dense(equation(Q, style).as_ref(), LEN))
            .map(|(a, b)| gap(a, &b))
            .fold(0.0, f64::max)
    };
    let (c_eq, c_print) = (Recent { q: Q }.column_sums(LEN), printed(Q, Style::Recent).column_sums(LEN));
    let peak = (0..LEN).max_by(|&a, &b| c_print[a].total_cmp(&c_print[b])).unwrap_or(0);
    let floored = {
        let matrix = dense(&Recent { q: 0.98 }, 768);
        let causal = || matrix.iter().enumerate().flat_map(|(t, row)| &row[..t]);
        causal().filter(|&&w| w < 0.01).count() as f64 / causal().count() as f64
    };

    let all_rows = rows_recent.len() == LEN && rows_both.len() == LEN;
    let findings = vec![
        finding(
            "The matrices of Eq. 17 and Eq. 18 are those of Eq. 2 and Eq. 1",
            holds_or(
                all_rows,
                format!(
                    "as printed, an off-diagonal entry depends on its column only; at T = {LEN}, γλ = {Q} the rows that agree are {rows_recent:?} (recent) and {rows_both:?} (both), and entries differ by up to {} and {}",
                    short(largest(Style::Recent)),
                    short(largest(Style::Both))
                ),
            ),
            format!(
                "on-policy weight of token 0: {} (Eq. 1) against {} (Eq. 18); of token 128: {} against {}; Eq. 18's weights peak at token {peak} with {}",
                short(c_eq[0]),
                short(c_print[0]),
                short(c_eq[128]),
                short(c_print[128]),
                short(c_print[peak])
            ),
        ),
        finding(
            "Read with n (and max(cols)) as the row index and no floor, Eq. 17/18 are Eq. 2/1",
            holds_or(index_gap < EXACT, format!("entries differ by {}", short(index_gap))),
            format!("largest difference of entries {}", short(index_gap)),
        ),
        finding(
            "The undefined floor ε of Eq. 17/18 may be small without effect",
            holds_or(
                floored < 0.01,
                format!(
                    "a floor of 0.01 replaces {:.1} % of the off-diagonal entries at T = 768, γλ = 0.98",
                    100.0 * floored
                ),
            ),
            format!("{:.1} % of entries below 0.01", 100.0 * floored),
        ),
        finding(
            "Every trace is computed in O(T), forwards and backwards, as its dense matrix",
            holds_or(worst < EXACT, format!("largest difference {}", short(worst))),
            format!("{} cases, T up to 257: largest difference {}", accuracy.rows.len(), short(worst)),
        ),
    ];

    let small = |title: &str, trace: &dyn Trace| {
        let cut = |row: Vec<f64>, t: usize| {
            row.into_iter().enumerate().map(|(k, w)| if k > t { f64::NAN } else { w }).collect()
        };
        let values = dense(trace, 8).into_iter().enumerate().map(|(t, row)| cut(row, t)).collect();
        let tokens = || (0..8).map(|i| i.to_string());
        Panel::new(title)
            .x(Axis::new("token k whose log-ratio enters").categories(tokens()))
            .y(Axis::new("trace at token t").categories(tokens()))
            .mark(crate::figure::Mark::HeatMap {
                values,
                annotate: true,
                range: Some((0.0, 1.0)),
                diverging: false,
                label: "weight E[t,k]".into(),
            })
    };
    let matrices = Figure::new("As printed, all rows of a trace matrix repeat the last: weights ignore how old a token is")
        .caption("T = 8, γλ = 0.8, floor 0; grey: above the diagonal; left the equations, right the matrices of the appendix. Eq. 17/18 with n and max(cols) taken as the last column (our reading: the paper does not define them).")
        .panel_size(480, 380)
        .panel(small("recent, Eq. 1", &Recent { q: 0.8 }))
        .panel(small("recent, Eq. 18 as printed", &printed(0.8, Style::Recent)))
        .panel(small("both, Eq. 2", &Both { q: 0.8 }))
        .panel(small("both, Eq. 17 as printed", &printed(0.8, Style::Both)));
    let mut sums = Figure::new("Printed matrices weigh otherwise: Eq. 1 favours the first tokens, Eq. 18 those ~100 from the end")
        .caption("Column sums c_k = Σ_t E[t,k], the on-policy weight of token k relative to GRPO; γλ = 0.99, floor 0. Where a line runs into another the two are equal.");
    for len in [256, 768] {
        let mut panel =
            Panel::new(format!("T = {len}")).x("token k").y(Axis::new("weight c_k (GRPO = 1)").log());
        for (name, trace) in [
            ("recent, Eq. 1", equation(Q, Style::Recent)),
            ("recent, Eq. 18 as printed", Box::new(printed(Q, Style::Recent))),
            ("both, Eq. 2", equation(Q, Style::Both)),
            ("both, Eq. 17 as printed", Box::new(printed(Q, Style::Both))),
        ] {
            let c = trace.column_sums(len);
            panel = panel.line(name, c.iter().enumerate().map(|(k, &c)| (k as f64, c)));
        }
        sums = sums.panel(panel.hline(1.0, "GRPO"));
    }
    Ok(Report {
        findings,
        tables: vec![(String::new(), columns), ("accuracy".into(), accuracy)],
        figures: vec![("matrices".into(), matrices), (String::new(), sums)],
    })
}
