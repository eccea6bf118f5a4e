//! `traces`: the matrices of Eq. 17/18 against those of Eq. 1/2.

use crate::experiment::{Context, Experiment, Finding, Parts};
use crate::experiments::common::chart::chart;
use crate::experiments::common::claim::{claim, quoted};
use crate::experiments::common::{gap, indexed, largest, mean, percent};
use crate::figure::{Axis, Figure};
use crate::sentences::SentenceId;
use grpo_lambda::trace::{AsPrinted, Both, Recent, RowIndex, Style, Trace, dense};
use grpo_lambda_stats::table::Table;
use serde::Serialize;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "traces",
    title: "Do the printed trace matrices agree with Eq. 1 and Eq. 2?",
    claim: "\"Trace matrix is a non-learnable precomputed lower-triangular matrix with 1s on the leading diagonal. \
        The two variants of GRPO-λ uses recent and both styles for the trace-weights, which is computed with \
        get_trace().\" (Eq. 17 for both, Eq. 18 for recent)",
    source: "GRPO-λ, Appendix A.3 \"Trace weights\", Eq. 17-18, against Eq. 1-2",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

const LEN: usize = 256;
const Q: f64 = 0.99;
/// Lengths whose column sums are listed.
const LENGTHS: [usize; 2] = [256, 768];
/// The floor of a printed matrix that is tried, and the matrix it is tried on.
const FLOOR: f64 = 0.01;
const FLOORED: (usize, f64) = (768, 0.98);

struct Numbers {
    columns: Vec<Columns>,
    recent: AgainstEquation,
    both: AgainstEquation,
    /// The share of off-diagonal entries below [`FLOOR`].
    floored: f64,
}

/// A style of the trace, from its equation or from the appendix.
#[derive(Clone, Copy)]
struct Matrix {
    style: &'static str,
    printed: bool,
    /// Its name in figures.
    name: &'static str,
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
struct Columns {
    matrix: Matrix,
    len: usize,
    sums: Vec<f64>,
}

/// A printed style against its equation.
struct AgainstEquation {
    /// Rows that agree to rounding.
    equal_rows: Vec<usize>,
    /// Largest difference of entries.
    as_printed: f64,
    /// [`AgainstEquation::as_printed`] with `n` and `max(cols)` read as the row index.
    row_index: f64,
}

fn measure(_: &Context) -> anyhow::Result<Numbers> {
    let columns =
        |len| MATRICES.map(|matrix| Columns { matrix, len, sums: matrix.trace(Q).column_sums(len) });
    Ok(Numbers {
        columns: LENGTHS.into_iter().flat_map(columns).collect(),
        recent: against_equation(Style::Recent),
        both: against_equation(Style::Both),
        floored: share_below_floor(),
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

fn findings(n: &Numbers) -> Vec<Finding> {
    let sums = |printed: bool| {
        let own = |c: &&Columns| c.len == LEN && c.matrix.style == "recent" && c.matrix.printed == printed;
        n.columns.iter().find(own).map_or(&[][..], |c| &c.sums)
    };
    let (equation, printed) = (sums(false), sums(true));
    let peak = (0..LEN).max_by(|&a, &b| printed[a].total_cmp(&printed[b])).unwrap_or(0);
    vec![
        quoted(SentenceId::TwoTraceStyles)
            .holds_or(
                n.recent.equal_rows.len() == LEN && n.both.equal_rows.len() == LEN,
                format!(
                    "an off-diagonal entry of the printed matrices depends only on its column. At T = {LEN} and \
                     γλ = {Q} only the rows {:?} (recent) and {:?} (both) agree",
                    n.recent.equal_rows, n.both.equal_rows
                ),
            )
            .value("entries of recent differ by up to", n.recent.as_printed)
            .value("of both", n.both.as_printed)
            .value("on-policy weights of tokens 0 and 128 by Eq. 1", [equation[0], equation[128]])
            .value("by Eq. 18", [printed[0], printed[128]])
            .value("token at which Eq. 18's weights peak", peak)
            .value("its weight", printed[peak]),
        claim(
        "row_index",
        "Eq. 17 equals Eq. 2, and Eq. 18 equals Eq. 1, if n and max(cols) are taken as the row index and the \
         floor is left out",
    ).identity(n.recent.row_index.max(n.both.row_index)),
        claim(
        "floor",
        "A small floor ε in Eq. 17 and 18, where the paper gives ε no value, has no effect",
    ).holds_or(n.floored < 0.01, format!("a floor of 0.01 replaces {} of the off-diagonal entries at T = 768, γλ = 0.98", percent(n.floored)))
        .value("share of entries replaced at T = 768, γλ = 0.98", n.floored),
    ]
}

/// A column sum at one of five places, or their mean; a row of `traces.csv`.
#[derive(Serialize)]
struct SumRow {
    tokens: usize,
    q: f64,
    style: &'static str,
    matrix: &'static str,
    quantity: &'static str,
    value: f64,
}

fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let rows = n.columns.iter().flat_map(|Columns { matrix, len: tokens, sums }| {
        let places = [("c_0", 0), ("c_T/4", tokens / 4), ("c_T/2", tokens / 2), ("c_3T/4", 3 * tokens / 4)];
        let places = places.into_iter().chain([("c_T-1", tokens - 1)]).map(|(name, k)| (name, sums[k]));
        places.chain([("mean", mean(sums))]).map(|(quantity, value)| SumRow {
            tokens: *tokens,
            q: Q,
            style: matrix.style,
            matrix: if matrix.printed { "printed" } else { "equation" },
            quantity,
            value,
        })
    });
    vec![(String::new(), Table::from_rows(rows))]
}

fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let title =
        "Printed matrices weigh otherwise: Eq. 1 favours the first tokens, Eq. 18 those ~100 from the end";
    let figure = Figure::new(title).caption(
        "Column sums c_k = Σ_t E[t,k], the on-policy weight of token k relative to GRPO; γλ = 0.99, floor 0. Where a \
         line runs into another the two are equal.",
    );
    let weights = n.columns.iter().flat_map(|c| indexed(&c.sums).map(move |point| (c, point)));
    let sums = chart(weights)
        .panels(|(c, _)| format!("T = {}", c.len))
        .x("token k")
        .y(Axis::new("weight c_k (GRPO = 1)").log())
        .lines(|(c, _)| c.matrix.name, |(_, point)| *point)
        .hline(1.0, "GRPO")
        .on(figure);
    vec![(String::new(), sums)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;

    fn numbers(rows: usize, row_index: f64, floored: f64) -> Numbers {
        let against = || AgainstEquation { equal_rows: (0..rows).collect(), as_printed: 0.5, row_index };
        let columns = |printed| Columns {
            matrix: Matrix { style: "recent", printed, name: "" },
            len: LEN,
            sums: vec![1.0; LEN],
        };
        Numbers { columns: [false, true].map(columns).into(), recent: against(), both: against(), floored }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers(LEN, 0.0, 0.001)), ["Holds"; 3]);
        assert_eq!(verdicts(numbers(2, 0.1, 0.5)), ["Fails"; 3]);
        assert_eq!(verdicts(numbers(LEN - 1, 0.0, 0.001)), ["Fails", "Holds", "Holds"]);
    }
}
