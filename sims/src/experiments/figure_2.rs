//! `figure_2`: the paper's Figure 2, drawn from the operators.

use grpo_lambda::table::Table;
use grpo_lambda::trace::{AsPrinted, Both, Recent, Style, Trace};

use super::common::{EXACT, finding, holds_or, short};
use crate::experiment::{Context, Experiment, Report};
use crate::figure::{Axis, Figure, Panel};

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    id: "figure_2",
    title: "The trace styles of Figure 2, with the printed matrices beside them",
    claim: "\"we propose a variation of the weighting scheme such that early tokens are considered as important as the late ones\"; \"The distinction between the classic traces, which we call recent, and the proposed variation, which we call both, is depicted in Figure 2.\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Section 3.2, Eq. 2, Figure 2",
    run,
};

const LEN: usize = 256;

/// The curves of the figure for one `q`.
fn styles(q: f64) -> [(&'static str, Box<dyn Trace>); 4] {
    let printed = |style| AsPrinted { q, floor: 0.0, style, max_length: None };
    [
        ("recent", Box::new(Recent { q })),
        ("both", Box::new(Both { q })),
        ("recent, Eq. 18 as printed", Box::new(printed(Style::Recent))),
        ("both, Eq. 17 as printed", Box::new(printed(Style::Both))),
    ]
}

fn run(_context: &Context) -> anyhow::Result<Report> {
    let mut table = Table::new(&["q", "at_token_t", "past_token_k", "style", "weight"]);
    let mut figure = Figure::new("Figure 2 redrawn: equation and printed matrix agree at the last token, not at an earlier one")
        .caption("Weight E[t,k] of past token k in the trace ratio at token t; T = 256, floor 0. Left, the last token; right, t = 128, where the printed matrices weigh as if it were the last. The token itself has weight 1. Of lines that coincide the later name is on top.");
    let (mut asymmetry, mut off_equation) = (0.0f64, 0.0f64);
    for q in [0.98, 0.99] {
        for t in [LEN - 1, LEN / 2] {
            let mut panel = Panel::new(format!("γλ = {q}, trace at token t = {t}"))
                .x(Axis::new("past token k").range(0.0, t as f64))
                .y(Axis::new("weight of token k").range(0.0, 1.05));
            for (name, trace) in styles(q) {
                let weights: Vec<f64> = (0..=t).map(|k| trace.weight(t, k, LEN)).collect();
                for (k, &w) in weights.iter().enumerate().step_by(8).chain([(t, &1.0)]) {
                    table.push(vec![q.into(), t.into(), k.into(), name.into(), w.into()]);
                }
                let style = if name.contains("printed") {
                    crate::figure::Style::Dashed
                } else {
                    crate::figure::Style::Solid
                };
                panel =
                    panel.styled_line(name, style, weights.iter().enumerate().map(|(k, &w)| (k as f64, w)));
            }
            figure = figure.panel(panel);
        }
        for t in 0..LEN {
            let at = |trace: &dyn Trace, k: usize| trace.weight(t, k, LEN);
            for k in 0..=t {
                // Eq. 2 with l = t - k, and the mirror image that makes early as important as late.
                let (both, recent) = (Both { q }, Recent { q });
                let l = t - k;
                let tr = q.powi(l as i32).max(q.powi((t - l) as i32));
                off_equation = off_equation
                    .max((at(&both, k) - tr).abs())
                    .max((at(&recent, k) - q.powi(l as i32)).abs());
                asymmetry = asymmetry.max((at(&both, k) - at(&both, t - k)).abs());
            }
        }
    }
    let recent = Recent { q: 0.99 };
    let both = Both { q: 0.99 };
    let (middle, first) = (both.weight(255, 127, LEN), recent.weight(255, 0, LEN));
    let columns = both.column_sums(LEN);
    let literal = AsPrinted { q: 0.99, floor: 0.0, style: Style::Recent, max_length: None };
    let (eq, print) = (recent.weight(128, 120, LEN), literal.weight(128, 120, LEN));
    let findings = vec![
        finding(
            "In the trace ratio of style both, \"early tokens are considered as important as the late ones\"",
            holds_or(
                asymmetry < EXACT && off_equation < EXACT,
                format!("asymmetry {}, off Eq. 1/2 by {}", short(asymmetry), short(off_equation)),
            ),
            format!(
                "tr of token k and of token t-k differ by {}; at t = 255, γλ = 0.99: tokens 0 and 255 have weight 1, token 127 has {} (recent: token 0 has {})",
                short(asymmetry),
                short(middle),
                short(first)
            ),
        ),
        finding(
            "In the update of style both, early tokens are as important as late ones",
            holds_or(
                (columns[0] - columns[LEN - 1]).abs() < EXACT,
                format!(
                    "summed over the ratios of a response, token 0 weighs {} and token {} weighs {}",
                    short(columns[0]),
                    LEN - 1,
                    short(columns[LEN - 1])
                ),
            ),
            format!("T = {LEN}, γλ = 0.99, on-policy, δ_t = A_NAE"),
        ),
        finding(
            "The matrices of Eq. 17/18 draw the same curves",
            holds_or(
                (eq - print).abs() < EXACT,
                format!(
                    "in the ratio at t = 128, token 120 has weight {} by Eq. 1 and {} by Eq. 18",
                    short(eq),
                    short(print)
                ),
            ),
            "only at the last token; γλ = 0.99, T = 256",
        ),
    ];
    Ok(Report { findings, tables: vec![(String::new(), table)], figures: vec![(String::new(), figure)] })
}
