//! The tables.

use grpo_lambda_stats::table::{Cell, Table};

use super::fork::ADVANTAGE_RATIO;
use super::measure::Numbers;
use crate::experiments::common::vectors::EXACT;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        ("methods".into(), methods(n)),
        ("fixed_length".into(), fixed_length(n)),
        ("regions".into(), regions(n)),
        ("ratio".into(), ratios(n)),
        ("per_response".into(), per_response(n)),
    ]
}

fn yes(condition: bool) -> Cell {
    if condition { "yes" } else { "no" }.into()
}

/// What rounding leaves is a bound, so that the committed numbers do not depend on the machine.
fn below(difference: f64) -> Cell {
    if difference < EXACT { EXACT } else { difference }.into()
}

fn methods(n: &Numbers) -> Table {
    let mut table = Table::new(&[
        "method",
        "better",
        "credit_short",
        "credit_long",
        "credit_ratio",
        "step_short",
        "step_long",
        "inverts",
    ]);
    for m in &n.methods {
        for (better, p) in [("short", m.short_better), ("long", m.long_better)] {
            table.push(vec![
                m.name.as_str().into(),
                better.into(),
                p.credit[0].into(),
                p.credit[1].into(),
                (p.credit[1] / p.credit[0]).into(),
                p.step[0].into(),
                p.step[1].into(),
                yes(p.inverts()),
            ]);
        }
    }
    table
}

fn fixed_length(n: &Numbers) -> Table {
    let mut table =
        Table::new(&["mdp", "length", "style", "lambda", "cosine_with_gradient", "largest_difference_below"]);
    for f in &n.fixed_length {
        table.push(vec![
            f.mdp.into(),
            f.len.into(),
            f.style.into(),
            f.lambda.into(),
            f.cosine.into(),
            below(f.off),
        ]);
    }
    table
}

fn regions(n: &Numbers) -> Table {
    let columns = ["method", "q_short", "q_long", "advantage_difference", "credit_difference", "inverts"];
    let mut table = Table::new(&columns);
    for r in &n.regions {
        let p = &r.preference;
        table.push(vec![
            r.method.into(),
            r.success[0].into(),
            r.success[1].into(),
            (p.q[0] - p.q[1]).into(),
            (p.credit[0] - p.credit[1]).into(),
            yes(p.inverts()),
        ]);
    }
    table
}

fn ratios(n: &Numbers) -> Table {
    let mut table = Table::new(&[
        "normalise",
        "long_length",
        "lambda",
        "credit_short",
        "credit_long",
        "credit_ratio",
        "advantage_ratio",
    ]);
    for at in &n.by_lambda {
        table.push(vec![
            at.normalise.into(),
            at.len.into(),
            at.lambda.into(),
            at.credit[0].into(),
            at.credit[1].into(),
            at.ratio().into(),
            ADVANTAGE_RATIO.into(),
        ]);
    }
    table
}

fn per_response(n: &Numbers) -> Table {
    let mut table =
        Table::new(&["mdp", "mean_length", "cosine_with_gradient", "largest_difference_to_formula_below"]);
    for m in &n.per_response {
        table.push(vec![m.mdp.as_str().into(), m.mean_length.into(), m.cosine.into(), below(m.off)]);
    }
    table
}
