//! Findings, tables and figures.

use super::{ADVANTAGE_RATIO, GROUP, Numbers, Ratio, Region};
use crate::experiment::Finding;
use crate::experiments::common::{EXACT, all_within, distinct, holds_or, largest};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::table::Table;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![credit(n), fixed_length(n), preferences(n), per_response(n)]
}

fn credit(n: &Numbers) -> Finding {
    let c = &n.oracle_credit;
    let [short, long] = c.credit;
    Finding::new(
        "credit",
        "Under the trace the choice with the greater Q gets the greater expected credit",
        holds_or(
            (short > long) == (c.q[0] > c.q[1]),
            format!("the answer with Q = {} gets {short:.2}, the one with Q = {} {long:.1}", c.q[0], c.q[1]),
        ),
    )
    .value("credit of the short answer", short)
    .value("credit of the long answer", long)
    .value("true advantage of the short answer", c.advantage[0])
    .value("true advantage of the long answer", c.advantage[1])
    .value("V0", c.v0)
    .note("The fork: answers of 2 and 50 tokens, γ = 1, λ = 0.99, credit E[(r-V0) c_0(T)].")
}

fn fixed_length(n: &Numbers) -> Finding {
    let worst = largest(n.fixed_length.iter().map(|f| f.largest_difference_below));
    Finding::new(
        "fixed_length",
        "Fixed length T: the expected update of GRPO-lambda is (G-1)/G Σ_k c_k ∇_(k)J, each depth of ∇J rescaled by its column sum",
        all_within(EXACT, worst),
    )
    .value("cases", n.fixed_length.len())
    .value("largest difference below", worst)
    .note(format!(
        "Responses in groups of {GROUP}, without standard deviation and clamp. A tabular policy has the same stationary points, and another direction."
    ))
}

fn preferences(n: &Numbers) -> Finding {
    let names = |better: &str| -> Vec<&str> {
        let inverted = n.methods.iter().filter(|m| m.better == better && m.inverts.0);
        inverted.map(|m| m.method.as_str()).collect()
    };
    let (short, long) = (names("short"), names("long"));
    let all = distinct(n.methods.iter().map(|m| m.method.as_str()));
    let neither: Vec<&str> =
        all.iter().copied().filter(|m| !short.contains(m) && !long.contains(m)).collect();
    Finding::new(
        "preferences",
        "The actual expected updates keep the order of the two answers (Q = 0.9 and 0.8, T = 2 and 50, equally likely, V0 = 0.25, G = 8)",
        holds_or(
            short.is_empty() && long.is_empty(),
            format!(
                "{} of {} variants push the worse long answer up more than the better short one, {} the worse short answer",
                short.len(),
                all.len(),
                long.len()
            ),
        ),
    )
    .value("neither way", neither)
    .rows("methods", &["method", "better", "credit_short", "credit_long"])
    .only("inverts", &["yes"])
}

fn per_response(n: &Numbers) -> Finding {
    let least = n.per_response.iter().map(|m| m.cosine_with_gradient).fold(1.0, f64::min);
    Finding::new(
        "per_response",
        "Dividing each response by its own length (1/T_i) leaves a multiple of ∇J",
        holds_or(least > 1.0 - 1e-9, format!("cosine with ∇J down to {least:.3}")),
    )
    .rows("per_response", &[])
    .note("The update is E[g] = (G-1)/G (∇E[r/T] - V0 ∇E[1/T]).")
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        ("methods".into(), Table::from_rows(&n.methods)),
        ("fixed_length".into(), Table::from_rows(&n.fixed_length)),
        ("regions".into(), Table::from_rows(&n.regions)),
        ("ratio".into(), Table::from_rows(&n.ratios)),
        ("per_response".into(), Table::from_rows(&n.per_response)),
    ]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![("regions".into(), regions(n)), ("ratio".into(), ratios(n))]
}

fn regions(n: &Numbers) -> Figure {
    let figure = Figure::new("Length-dependent weights invert preferences: the worse answer gains on the better one")
        .caption("Exact expected step of the two logits at the prompt; short T = 2, long T = 50, each chosen with probability 0.15, else astray (T = 10, reward 0); G = 4, λ = 0.99, no std, no clamp. Q: probability of reward. Mean 1: weights of each response averaging 1 (ours).")
        .panel_size(440, 330);
    n.regions.chunk_by(|a, b| a.method == b.method).map(region).fold(figure, Figure::panel)
}

fn region(regions: &[Region]) -> Panel {
    let unequal = || regions.iter().filter(|r| r.q_short != r.q_long);
    let points =
        |inverted: bool| unequal().filter(move |r| r.inverts.0 == inverted).map(|r| (r.q_short, r.q_long));
    Panel::new(format!(
        "{}: {:.0} % inverted",
        regions[0].method.replace("weights of mean 1", "mean 1"),
        100.0 * points(true).count() as f64 / unequal().count() as f64
    ))
    .x(Axis::new("Q of the short answer").range(-0.04, 1.04))
    .y(Axis::new("Q of the long answer").range(-0.04, 1.04))
    .points("the better answer gains on the worse one", points(false))
    .points("inverted: the worse answer gains on the better one", points(true))
    .styled_line("equal values", Style::Dashed, [(0.0, 0.0), (1.0, 1.0)])
}

fn ratios(n: &Numbers) -> Figure {
    let most = largest(n.ratios.iter().map(|r| r.credit_ratio));
    let figure = Figure::new(format!(
        "The longer the worse answer and the larger λ, the more credit it gets: up to {most:.0} times the better's"
    ))
    .caption("Exact implied credit at the prompt: long answer (Q = 0.8) over short answer (Q = 0.9, T = 2), V0 = 0.25; recent trace, reduction constant, G = 4, no std, no clamp.");
    n.ratios.chunk_by(|a, b| a.normalise == b.normalise).map(ratio).fold(figure, Figure::panel)
}

fn ratio(points: &[Ratio]) -> Panel {
    let title = match points[0].normalise {
        "none" => "Trace as in the paper",
        _ => "Weights of each response with mean 1 (ours)",
    };
    // Every λ has the same room: most changes between 0.9 and 1.
    let lambdas = distinct(points.iter().map(|r| r.lambda));
    let place = |lambda: f64| lambdas.iter().position(|l| *l == lambda).unwrap_or(0) as f64;
    let mut panel = Panel::new(title)
        .x(Axis::new("λ (γ = 1; steps are not even)").categories(lambdas.iter().map(f64::to_string)))
        .y(Axis::new("credit of long / credit of short").log().range(0.5, 100.0));
    for same_length in points.chunk_by(|a, b| a.long_length == b.long_length) {
        let name = format!("T = {}", same_length[0].long_length);
        let points = || same_length.iter().map(|r| (place(r.lambda), r.credit_ratio));
        panel = panel.styled_line(name.clone(), Style::Solid, points()).points(name, points());
    }
    panel.hline(ADVANTAGE_RATIO, "true ratio").hline(1.0, "above: inverted")
}

#[cfg(test)]
mod tests {
    use super::super::{FixedLength, OneWay, OracleCredit, PerResponse};
    use super::*;
    use crate::experiments::common::record::Yes;
    use crate::experiments::common::words;

    fn numbers(credit: [f64; 2], off: f64, inverts: bool, cosine: f64) -> Numbers {
        Numbers {
            fixed_length: vec![FixedLength {
                mdp: "pivot",
                length: 4,
                style: "recent",
                lambda: 0.9,
                cosine_with_gradient: 0.9,
                largest_difference_below: off,
            }],
            oracle_credit: OracleCredit { v0: 0.25, q: [0.9, 0.8], advantage: [0.65, 0.55], credit },
            methods: vec![OneWay {
                method: "recent as in the paper".into(),
                better: "short",
                credit_short: 0.2,
                credit_long: 2.5,
                credit_ratio: 12.5,
                step_short: 0.1,
                step_long: 0.2,
                inverts: Yes(inverts),
            }],
            regions: Vec::new(),
            ratios: Vec::new(),
            per_response: vec![PerResponse {
                mdp: "fork".into(),
                mean_length: 10.0,
                cosine_with_gradient: cosine,
                largest_difference_to_formula_below: EXACT,
            }],
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers([2.0, 1.0], EXACT, false, 1.0)), ["Holds"; 4]);
        assert_eq!(verdicts(numbers([1.0, 20.0], 0.1, true, 0.97)), ["Fails"; 4]);
    }
}
