//! What is computed: the printed matrices against the equations, and maps in linear time against dense matrices.

use grpo_lambda::trace::{
    AsPrinted, Both, Recent, RowIndex, RowNormalised, Sequence, Style, Token, Trace, dense,
};

use crate::experiment::Context;
use crate::experiments::common::random::{noise, stream};
use crate::experiments::common::vectors::{dot, gap, largest};

pub(super) const LEN: usize = 256;
pub(super) const Q: f64 = 0.99;
/// Lengths whose column sums are listed.
const LENGTHS: [usize; 2] = [256, 768];
/// Tokens and decay of the matrices that are drawn.
const DRAWN: (usize, f64) = (8, 0.8);
/// The floor of a printed matrix that is tried, and the matrix it is tried on.
const FLOOR: f64 = 0.01;
const FLOORED: (usize, f64) = (768, 0.98);

pub(super) struct Numbers {
    pub(super) accuracy: Vec<Accuracy>,
    pub(super) columns: Vec<Columns>,
    pub(super) recent: AgainstEquation,
    pub(super) both: AgainstEquation,
    /// The share of off-diagonal entries below [`FLOOR`].
    pub(super) floored: f64,
    pub(super) drawn: Vec<(Matrix, Vec<Vec<f64>>)>,
}

/// A trace in linear time against its dense matrix: largest differences.
pub(super) struct Accuracy {
    pub(super) trace: &'static str,
    pub(super) q: f64,
    pub(super) len: usize,
    pub(super) forward: f64,
    pub(super) backward: f64,
    /// Of `<y, E x>` and `<Eᵀ y, x>`.
    pub(super) inner_products: f64,
}

/// A style of the trace, from its equation or from the appendix.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    pub(super) style: &'static str,
    pub(super) printed: bool,
    /// Its name in figures.
    pub(super) name: &'static str,
}

const MATRICES: [Matrix; 4] = [
    Matrix { style: "recent", printed: false, name: "recent, Eq. 1" },
    Matrix { style: "recent", printed: true, name: "recent, Eq. 18 as printed" },
    Matrix { style: "both", printed: false, name: "both, Eq. 2" },
    Matrix { style: "both", printed: true, name: "both, Eq. 17 as printed" },
];

impl Matrix {
    fn trace(self, q: f64) -> Box<dyn Trace> {
        let style = if self.style == "recent" { Style::Recent } else { Style::Both };
        if self.printed { Box::new(printed(q, style)) } else { equation(q, style) }
    }
}

/// The column sums of a matrix: the on-policy weights of the tokens.
pub(super) struct Columns {
    pub(super) matrix: Matrix,
    pub(super) len: usize,
    pub(super) sums: Vec<f64>,
}

/// A printed style against its equation.
pub(super) struct AgainstEquation {
    /// Rows that agree to rounding.
    pub(super) equal_rows: Vec<usize>,
    /// Largest difference of entries.
    pub(super) as_printed: f64,
    /// The same with `n` and `max(cols)` read as the row index.
    pub(super) row_index: f64,
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let accuracy = accuracy(context.seed);
    (context.progress)(0.5, "column sums");
    let columns =
        |len| MATRICES.map(|matrix| Columns { matrix, len, sums: matrix.trace(Q).column_sums(len) });
    Ok(Numbers {
        accuracy,
        columns: LENGTHS.into_iter().flat_map(columns).collect(),
        recent: against_equation(Style::Recent),
        both: against_equation(Style::Both),
        floored: share_below_floor(),
        drawn: MATRICES.map(|matrix| (matrix, dense(matrix.trace(DRAWN.1).as_ref(), DRAWN.0))).into(),
    })
}

fn printed(q: f64, style: Style) -> AsPrinted {
    AsPrinted { q, floor: 0.0, style, max_length: None }
}

fn equation(q: f64, style: Style) -> Box<dyn Trace> {
    match style {
        Style::Recent => Box::new(Recent { q }),
        Style::Both => Box::new(Both { q }),
    }
}

/// The traces of a given `q`, by name.
fn every(q: f64) -> Vec<(&'static str, Box<dyn Trace>)> {
    vec![
        ("token", Box::new(Token)),
        ("recent", Box::new(Recent { q })),
        ("both", Box::new(Both { q })),
        ("printed recent", Box::new(printed(q, Style::Recent))),
        ("printed both", Box::new(printed(q, Style::Both))),
        ("row index recent, floor 0.01", Box::new(RowIndex { q, floor: FLOOR, style: Style::Recent })),
        ("row index both, floor 0.01", Box::new(RowIndex { q, floor: FLOOR, style: Style::Both })),
        ("sequence", Box::new(Sequence)),
        ("normalised recent", Box::new(RowNormalised(Recent { q }))),
        ("normalised both", Box::new(RowNormalised(Both { q }))),
    ]
}

fn accuracy(seed: u64) -> Vec<Accuracy> {
    let mut all = Vec::new();
    for q in [0.0, 0.3, 0.9, 0.98, 0.99, 1.0] {
        for (name, trace) in every(q) {
            // A single entry of a normalised matrix costs a whole row.
            let longest = if name.starts_with("normalised") { 64 } else { 257 };
            for len in [1, 2, 3, 8, 33, longest] {
                let [forward, backward, inner_products] = against_dense(trace.as_ref(), len, seed);
                all.push(Accuracy { trace: name, q, len, forward, backward, inner_products });
            }
        }
    }
    all
}

/// Largest differences of the O(T) maps from the dense matrix, and of `<y, E x>` from `<Eᵀ y, x>`.
fn against_dense(trace: &dyn Trace, len: usize, seed: u64) -> [f64; 3] {
    let mut rng = stream(seed, len as u64);
    let (x, y) = (noise(&mut rng, len), noise(&mut rng, len));
    let matrix = dense(trace, len);
    let forward: Vec<f64> = matrix.iter().map(|row| dot(row, &x)).collect();
    let backward: Vec<f64> = (0..len).map(|k| (0..len).map(|t| matrix[t][k] * y[t]).sum()).collect();
    let (z, g) = (trace.apply(&x), trace.adjoint(&y));
    [gap(&z, &forward), gap(&g, &backward), (dot(&y, &z) - dot(&g, &x)).abs()]
}

fn against_equation(style: Style) -> AgainstEquation {
    let wanted = dense(equation(Q, style).as_ref(), LEN);
    let gaps = |trace: &dyn Trace| -> Vec<f64> {
        dense(trace, LEN).iter().zip(&wanted).map(|(a, b)| gap(a, b)).collect()
    };
    let as_printed = gaps(&printed(Q, style));
    AgainstEquation {
        equal_rows: (0..LEN).filter(|&t| as_printed[t] < 1e-13).collect(),
        as_printed: largest(as_printed),
        row_index: largest(gaps(&RowIndex { q: Q, floor: 0.0, style })),
    }
}

fn share_below_floor() -> f64 {
    let (len, q) = FLOORED;
    let matrix = dense(&Recent { q }, len);
    let causal = || matrix.iter().enumerate().flat_map(|(t, row)| &row[..t]);
    causal().filter(|&&w| w < FLOOR).count() as f64 / causal().count() as f64
}
