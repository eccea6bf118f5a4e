//! `figure_2`: the paper's Figure 2 drawn from the operators.

use crate::experiment::{Context, Experiment, Finding, Parts};
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{EXACT, finding_on, holds_or, indexed, keyed, largest, short};
use crate::figure::{self, Axis, Figure, Panel};
use crate::sentences::SentenceId;
use grpo_lambda::trace::{AsPrinted, Both, Recent, Style, Trace};
use grpo_lambda_stats::table::Table;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "figure_2",
    title: "Are early tokens as important as late ones under the style both?",
    claim: "\"we propose a variation of the weighting scheme such that early tokens are considered as important as the late ones\"; \"The distinction between the classic traces, which we call recent, and the proposed variation, which we call both, is depicted in Figure 2.\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Section 3.2, Eq. 2, Figure 2",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

const LEN: usize = 256;
const QS: [f64; 2] = [0.98, 0.99];

struct Numbers {
    rows: Vec<Row>,
    /// Largest difference of the weights of tokens `k` and `t-k` in the trace at token `t`, style both.
    asymmetry: f64,
    /// Largest distance from Eq. 1 and Eq. 2, written out.
    off_equation: f64,
    /// Weights at `γλ = 0.99` that findings name.
    middle_both: f64,
    first_recent: f64,
    /// On-policy weights of the first and the last token in the update of style both.
    in_update: [f64; 2],
    /// Weight of token 120 at token 128: by Eq. 1, by Eq. 18 as printed.
    inside: [f64; 2],
}

/// One row of a trace matrix.
struct Row {
    q: f64,
    t: usize,
    style: &'static str,
    weights: Vec<f64>,
}

/// The curves of the figure for one `q`.
fn styles(q: f64) -> [(&'static str, Box<dyn Trace>); 4] {
    [
        ("recent", Box::new(Recent { q })),
        ("both", Box::new(Both { q })),
        ("recent, Eq. 18 as printed", Box::new(printed(q, Style::Recent))),
        ("both, Eq. 17 as printed", Box::new(printed(q, Style::Both))),
    ]
}

fn printed(q: f64, style: Style) -> AsPrinted {
    AsPrinted { q, floor: 0.0, style, max_length: None }
}

fn measure(_: &Context) -> anyhow::Result<Numbers> {
    let (mut rows, mut asymmetry, mut off_equation) = (Vec::new(), Vec::new(), Vec::new());
    for q in QS {
        for t in [LEN - 1, LEN / 2] {
            rows.extend(styles(q).map(|(style, trace)| Row {
                q,
                t,
                style,
                weights: (0..=t).map(|k| trace.weight(t, k, LEN)).collect(),
            }));
        }
        let pairs = || (0..LEN).flat_map(|t| (0..=t).map(move |k| (t, k)));
        asymmetry.extend(pairs().map(|(t, k)| asymmetry_at(q, t, k)));
        off_equation.extend(pairs().map(|(t, k)| off_equation_at(q, t, k)));
    }
    let (recent, both) = (Recent { q: 0.99 }, Both { q: 0.99 });
    let columns = both.column_sums(LEN);
    Ok(Numbers {
        rows,
        asymmetry: largest(asymmetry),
        off_equation: largest(off_equation),
        middle_both: both.weight(255, 127, LEN),
        first_recent: recent.weight(255, 0, LEN),
        in_update: [columns[0], columns[LEN - 1]],
        inside: [recent.weight(128, 120, LEN), printed(0.99, Style::Recent).weight(128, 120, LEN)],
    })
}

/// The mirror image that makes early tokens as important as late ones.
fn asymmetry_at(q: f64, t: usize, k: usize) -> f64 {
    (Both { q }.weight(t, k, LEN) - Both { q }.weight(t, t - k, LEN)).abs()
}

/// Eq. 1 and Eq. 2 with `l = t - k`.
fn off_equation_at(q: f64, t: usize, k: usize) -> f64 {
    let l = t - k;
    let recent = q.powi(l as i32);
    let both = recent.max(q.powi((t - l) as i32));
    (Both { q }.weight(t, k, LEN) - both).abs().max((Recent { q }.weight(t, k, LEN) - recent).abs())
}

fn findings(n: &Numbers) -> Vec<Finding> {
    vec![
        finding_on(
            SentenceId::EarlyTokensAsImportant,
            holds_or(
                n.asymmetry < EXACT && n.off_equation < EXACT,
                format!("asymmetry {}, off Eq. 1/2 by {}", short(n.asymmetry), short(n.off_equation)),
            ),
            format!(
                "tr of token k and of token t-k differ by {}; at t = 255, γλ = 0.99: tokens 0 and 255 have weight 1, token 127 has {} (recent: token 0 has {})",
                short(n.asymmetry),
                short(n.middle_both),
                short(n.first_recent)
            ),
        ),
        keyed(
            "in_update",
            "In the update of style both, early tokens are as important as late ones",
            holds_or(
                (n.in_update[0] - n.in_update[1]).abs() < EXACT,
                format!(
                    "summed over the ratios of a response, token 0 weighs {} and token {} weighs {}",
                    short(n.in_update[0]),
                    LEN - 1,
                    short(n.in_update[1])
                ),
            ),
            format!("T = {LEN}, γλ = 0.99, on-policy, δ_t = A_NAE"),
        ),
        keyed(
            "printed_matrices",
            "The matrices of Eq. 17/18 draw the same curves",
            holds_or(
                (n.inside[0] - n.inside[1]).abs() < EXACT,
                format!(
                    "in the ratio at t = 128, token 120 has weight {} by Eq. 1 and {} by Eq. 18",
                    short(n.inside[0]),
                    short(n.inside[1])
                ),
            ),
            "only at the last token; γλ = 0.99, T = 256",
        ),
    ]
}

fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let entries = n.rows.iter().flat_map(|&Row { q, t, style, ref weights }| {
        let shown = weights.iter().enumerate().step_by(8).chain([(t, &1.0)]);
        shown.map(move |(k, &weight)| {
            Record::default()
                .with("q", q)
                .with("at_token_t", t)
                .with("past_token_k", k)
                .with("style", style)
                .with("weight", weight)
        })
    });
    vec![(String::new(), table(entries))]
}

fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let mut figure = Figure::new("Figure 2 redrawn: equation and printed matrix agree at the last token, not at an earlier one")
        .caption("Weight E[t,k] of past token k in the trace ratio at token t; T = 256, floor 0. Left, the last token; right, t = 128, where the printed matrices weigh as if it were the last. The token itself has weight 1. Of lines that coincide the later name is on top.");
    for rows in n.rows.chunk_by(|a, b| (a.q, a.t) == (b.q, b.t)) {
        let Row { q, t, .. } = rows[0];
        let mut panel = Panel::new(format!("γλ = {q}, trace at token t = {t}"))
            .x(Axis::new("past token k").range(0.0, t as f64))
            .y(Axis::new("weight of token k").range(0.0, 1.05));
        for row in rows {
            let style =
                if row.style.contains("printed") { figure::Style::Dashed } else { figure::Style::Solid };
            panel = panel.styled_line(row.style, style, indexed(&row.weights));
        }
        figure = figure.panel(panel);
    }
    vec![(String::new(), figure)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let numbers = |asymmetry, in_update, inside| Numbers {
            rows: Vec::new(),
            asymmetry,
            off_equation: 0.0,
            middle_both: 0.3,
            first_recent: 0.1,
            in_update,
            inside,
        };
        let verdicts = |n: &Numbers| words(&findings(n));
        assert_eq!(verdicts(&numbers(0.0, [2.0, 2.0], [0.5, 0.5])), ["Holds", "Holds", "Holds"]);
        assert_eq!(verdicts(&numbers(0.1, [2.0, 2.0], [0.5, 0.5])), ["Fails", "Holds", "Holds"]);
        assert_eq!(verdicts(&numbers(0.0, [256.0, 1.0], [0.5, 0.4])), ["Holds", "Fails", "Fails"]);
    }
}
