//! `figure_2`: the paper's Figure 2 drawn from the operators.

use crate::experiment::{Context, Experiment, Finding, Parts};
use crate::experiments::common::chart::chart;
use crate::experiments::common::claim::quoted;
use crate::experiments::common::{EXACT, largest, rounding_error};
use crate::figure::{Axis, Figure};
use crate::sentences::SentenceId;
use grpo_lambda::trace::{AsPrinted, Both, Recent, Style, Trace};
use grpo_lambda_stats::table::Table;
use serde::Serialize;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "figure_2",
    title: "With style `both`, are early tokens as important as late ones?",
    claim: "\"we propose a variation of the weighting scheme such that early tokens are considered as important as \
        the late ones\"; \"The distinction between the classic traces, which we call recent, and the proposed \
        variation, which we call both, is depicted in Figure 2.\"",
    source: "GRPO-λ, Section 3.2, Eq. 2, Figure 2",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

const LEN: usize = 256;
const QS: [f64; 2] = [0.98, 0.99];

struct Numbers {
    entries: Vec<Entry>,
    /// Largest difference of the weights of tokens `k` and `t-k` in the trace at token `t`, style both.
    asymmetry: f64,
    /// Largest distance from Eq. 1 and Eq. 2, written out.
    off_equation: f64,
    /// Weights at `γλ = 0.99` that findings name.
    middle_both: f64,
    first_recent: f64,
}

/// A weight of a trace matrix.
#[derive(Serialize)]
struct Entry {
    q: f64,
    at_token_t: usize,
    past_token_k: usize,
    style: &'static str,
    weight: f64,
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
    let (mut entries, mut asymmetry, mut off_equation) = (Vec::new(), Vec::new(), Vec::new());
    for q in QS {
        for t in [LEN - 1, LEN / 2] {
            for (style, trace) in styles(q) {
                let entry =
                    |k| Entry { q, at_token_t: t, past_token_k: k, style, weight: trace.weight(t, k, LEN) };
                entries.extend((0..=t).map(entry));
            }
        }
        let pairs = || (0..LEN).flat_map(|t| (0..=t).map(move |k| (t, k)));
        asymmetry.extend(pairs().map(|(t, k)| asymmetry_at(q, t, k)));
        off_equation.extend(pairs().map(|(t, k)| off_equation_at(q, t, k)));
    }
    let (recent, both) = (Recent { q: 0.99 }, Both { q: 0.99 });
    Ok(Numbers {
        entries,
        asymmetry: largest(asymmetry),
        off_equation: largest(off_equation),
        middle_both: both.weight(255, 127, LEN),
        first_recent: recent.weight(255, 0, LEN),
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
        quoted(SentenceId::EarlyTokensAsImportant)
            .holds_or(
                n.asymmetry < EXACT && n.off_equation < EXACT,
                "the weights are not those of a mirror image",
            )
            .value("largest difference of the weights of tokens k and t-k", rounding_error(n.asymmetry))
            .value("distance from Eq. 1 and 2", rounding_error(n.off_equation))
            .value("weight of token 127 at t = 255, γλ = 0.99", n.middle_both)
            .value("of token 0 under recent", n.first_recent),
    ]
}

/// Every eighth entry of a row, and the last.
fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let last = |e: &Entry| Entry { past_token_k: e.at_token_t, weight: 1.0, ..*e };
    let rows = n.entries.chunk_by(|a, b| (a.q, a.at_token_t, a.style) == (b.q, b.at_token_t, b.style));
    let shown = rows.flat_map(|row| row.iter().step_by(8).map(|e| Entry { ..*e }).chain([last(&row[0])]));
    vec![(String::new(), Table::from_rows(shown))]
}

fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let figure = Figure::new(
        "Figure 2 redrawn: equation and printed matrix agree at the last token, not at an earlier one",
    )
    .caption(
        "Weight E[t,k] of past token k in the trace ratio at token t; T = 256, floor 0. Left, the last token; right, \
         t = 128, where the printed matrices weigh as if it were the last. The token itself has weight 1. Of lines \
         that coincide the later name is on top.",
    );
    let chart = chart(&n.entries)
        .panels(|e| format!("γλ = {}, trace at token t = {}", e.q, e.at_token_t))
        .each(|panel, rows| panel.x(Axis::new("past token k").range(0.0, rows[0].at_token_t as f64)))
        .y(Axis::new("weight of token k").range(0.0, 1.05))
        .dashed(|name| name.contains("printed"), |e| e.style, |e| (e.past_token_k as f64, e.weight));
    vec![(String::new(), chart.on(figure))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;

    #[test]
    fn a_weight_off_its_mirror_image_refutes_the_sentence() {
        let verdicts = |asymmetry| {
            let (middle_both, first_recent) = (0.3, 0.1);
            let entries = Vec::new();
            words(&findings(&Numbers { entries, asymmetry, off_equation: 0.0, middle_both, first_recent }))
        };
        assert_eq!(verdicts(0.0), ["Holds"]);
        assert_eq!(verdicts(0.1), ["Fails"]);
    }
}
