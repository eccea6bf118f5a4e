//! Findings, tables and figures.

use super::Numbers;
use crate::experiment::Finding;
use crate::experiments::common::chart::chart;
use crate::experiments::common::claim::claim;
use crate::experiments::common::distinct;
use crate::figure::{Axis, Figure, Style};
use grpo_lambda_stats::table::Table;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![credit(n), preferences(n)]
}

fn credit(n: &Numbers) -> Finding {
    let c = &n.oracle_credit;
    let [short, long] = c.credit;
    claim("credit", "With the trace the answer with the greater Q gets the greater expected credit")
        .holds_or(
            (short > long) == (c.q[0] > c.q[1]),
            format!(
                "the answer with Q = {} gets the credit {short:.2}, and the one with Q = {} gets {long:.1}",
                c.q[0], c.q[1]
            ),
        )
        .value("credit of the short answer", short)
        .value("credit of the long answer", long)
        .value("true advantage of the short answer", c.advantage[0])
        .value("true advantage of the long answer", c.advantage[1])
        .value("V0", c.v0)
        .note("The fork: answers of 2 and 50 tokens, γ = 1, λ = 0.99, credit E[(r-V0) c_0(T)].")
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
    claim(
        "preferences",
        "Between two equally likely answers (Q = 0.9 and 0.8; T = 2 and 50 or reversed; V0 = 0.25; G = 8) the \
         expected update favours the better one",
    )
    .holds_or(
        short.is_empty() && long.is_empty(),
        format!(
            "{} of {} variants favour the worse answer if it is the long one, and {} if it is the short one",
            short.len(),
            all.len(),
            long.len()
        ),
    )
    .value("neither way", neither)
    .rows("methods", &["method", "better", "credit_short", "credit_long"])
    .only("inverts", &["yes"])
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![("methods".into(), Table::from_rows(&n.methods)), ("regions".into(), Table::from_rows(&n.regions))]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let title = "Length-dependent weights invert preferences: the worse answer gains on the better one";
    let figure = Figure::new(title)
        .caption(
            "Exact expected step of the two logits at the prompt; short T = 2, long T = 50, each chosen with \
             probability 0.15, else astray (T = 10, reward 0); G = 4, λ = 0.99, no std, no clamp. Q: probability of \
             reward. Mean 1: weights of each response averaging 1 (ours).",
        )
        .panel_size(440, 330);
    let inverted = |method: &str| {
        let own: Vec<_> = n.regions.iter().filter(|r| r.method == method && r.q_short != r.q_long).collect();
        let share = own.iter().filter(|r| r.inverts.0).count() as f64 / own.len() as f64;
        format!("{}: {:.0} % inverted", method.replace("weights of mean 1", "mean 1"), 100.0 * share)
    };
    let names =
        ["the better answer gains on the worse one", "inverted: the worse answer gains on the better one"];
    let regions = chart(n.regions.iter().filter(|r| r.q_short != r.q_long))
        .panels(|r| inverted(r.method))
        .x(Axis::new("Q of the short answer").range(-0.04, 1.04))
        .y(Axis::new("Q of the long answer").range(-0.04, 1.04))
        .points(|r| names[usize::from(r.inverts.0)], |r| (r.q_short, r.q_long))
        .each(|panel, _| panel.styled_line("equal values", Style::Dashed, [(0.0, 0.0), (1.0, 1.0)]))
        .on(figure.names(names));
    vec![("regions".into(), regions)]
}

#[cfg(test)]
mod tests {
    use super::super::{OneWay, OracleCredit};
    use super::*;
    use crate::experiments::common::record::Yes;
    use crate::experiments::common::words;

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |credit, inverts| {
            words(&findings(&Numbers {
                oracle_credit: OracleCredit { v0: 0.25, q: [0.9, 0.8], advantage: [0.65, 0.55], credit },
                methods: vec![OneWay { better: "short", inverts: Yes(inverts), ..Default::default() }],
                regions: Vec::new(),
            }))
        };
        assert_eq!(verdicts([2.0, 1.0], false), ["Holds"; 2]);
        assert_eq!(verdicts([1.0, 20.0], true), ["Fails"; 2]);
    }
}
