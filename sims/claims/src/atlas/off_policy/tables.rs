//! The tables.

use grpo_lambda_mdp::expected::RatioCredit;
use grpo_lambda_stats::table::Table;

use super::measure::Numbers;
use super::products::EXACT;
use super::row::columns;
use super::trust_region::{Q, traces};

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        (String::new(), rows(n)),
        ("trust_region".into(), trust_region(n)),
        ("trust_region_pairs".into(), pairs(n)),
        ("products".into(), products(n)),
        ("reuse".into(), reuse(n)),
    ]
}

fn rows(n: &Numbers) -> Table {
    let mut table = Table::new(&columns());
    n.rows.iter().for_each(|row| table.push(row.cells()));
    table
}

/// One row per decay and trace.
fn trust_region(n: &Numbers) -> Table {
    let mut table = Table::new(&["lambda", "trace", "share_outside", "share_outside_in_last_quarter"]);
    for s in &n.synthetic {
        table.push(vec![s.lambda.into(), s.trace.into(), s.outside.into(), s.outside_late.into()]);
    }
    table
}

/// One row per pair and trace.
fn pairs(n: &Numbers) -> Table {
    let columns = [
        "pair",
        "kl",
        "tokens_outside",
        "trace",
        "trace_ratios_outside",
        "trace_ratios_outside_where_all_tokens_are_inside",
    ];
    let mut table = Table::new(&columns);
    for pair in &n.pairs {
        for (i, named) in traces(Q).iter().enumerate() {
            table.push(vec![
                pair.name.as_str().into(),
                pair.kl.into(),
                pair.tokens.into(),
                named.name.into(),
                pair.outside[i].into(),
                pair.outside_though_inside[i].into(),
            ]);
        }
    }
    table
}

/// One row per credit and product of ratios.
fn products(n: &Numbers) -> Table {
    let mut table = Table::new(&["ratio", "credit", "smallest_error", "largest_error", "exact"]);
    let shown = |x: f64| if x < EXACT { EXACT } else { x };
    for p in &n.products.rows {
        let credit = match p.credit {
            RatioCredit::Outcome => "R/T",
            RatioCredit::Advantage => "true advantage",
        };
        table.push(vec![
            p.name.into(),
            credit.into(),
            shown(p.smallest).into(),
            shown(p.largest).into(),
            if p.exact() { "yes" } else { "no" }.into(),
        ]);
    }
    table
}

/// One row per task, method and update.
fn reuse(n: &Numbers) -> Table {
    let mut table = Table::new(&["mdp", "method", "updates", "gain", "gain_low", "gain_high", "kl"]);
    for r in &n.reused {
        for (k, ([low, mid, high], kl)) in r.gain.iter().zip(&r.kl).enumerate() {
            table.push(vec![
                r.mdp.as_str().into(),
                r.method.as_str().into(),
                (k + 1).into(),
                (*mid).into(),
                (*low).into(),
                (*high).into(),
                (*kl).into(),
            ]);
        }
    }
    table
}
