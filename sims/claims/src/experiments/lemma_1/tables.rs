//! The tables.

use grpo_lambda_stats::table::{Cell, Table};

use super::measure::Numbers;
use super::prefixes::{Depth, HORIZON, Prefix};
use crate::experiments::common::vectors::{EXACT, extremes, mean};

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        ("prefixes".into(), prefixes(n)),
        ("shrinking".into(), shrinking(n)),
        ("tightness".into(), tightness(n)),
    ]
}

fn prefixes(n: &Numbers) -> Table {
    let mut table =
        Table::new(&["family", "t", "prefixes", "violations", "worst_excess", "mean_gap", "mean_bound"]);
    for family in &n.families {
        let all = &family.prefixes;
        for t in 1..=all.iter().map(|p| p.t).max().unwrap_or(0) {
            let at: Vec<&Prefix> = all.iter().filter(|p| p.t == t).collect();
            let of = |f: &dyn Fn(&Prefix) -> f64| at.iter().map(|p| f(p)).collect::<Vec<_>>();
            table.push(vec![
                family.name.into(),
                t.into(),
                at.len().into(),
                at.iter().filter(|p| p.violates()).count().into(),
                extremes(of(&Prefix::excess)).1.into(),
                mean(&of(&|p| p.gap)).into(),
                mean(&of(&|p| p.bound)).into(),
            ]);
        }
    }
    table
}

fn shrinking(n: &Numbers) -> Table {
    let mut table = Table::new(&["step", "move", "prefixes", "responses", "excess"]);
    for (i, s) in n.shrunk.steps.iter().enumerate() {
        table.push(vec![i.into(), s.name.into(), s.prefixes.into(), s.responses.into(), s.excess.into()]);
    }
    table
}

fn tightness(n: &Numbers) -> Table {
    let mut table =
        Table::new(&["mdp", "t", "distance", "corrected_bound", "printed_bound", "worst_pointwise_excess"]);
    for t in 0..HORIZON {
        let of = |f: fn(&Depth) -> f64| n.by_depth.iter().map(|d| f(&d[t])).collect::<Vec<_>>();
        table.push(vec![
            format!("mean of {} random", n.by_depth.len()).into(),
            t.into(),
            mean(&of(|d| d.distance)).into(),
            mean(&of(|d| d.corrected)).into(),
            mean(&of(|d| d.printed)).into(),
            extremes(of(|d| d.worst_excess)).1.into(),
        ]);
    }
    for hazard in &n.of_zoo {
        for d in &hazard.depths {
            let row = [d.distance, d.corrected, d.printed, d.worst_excess];
            let mut cells: Vec<Cell> = vec![hazard.name.into(), d.t.into()];
            cells.extend(row.map(|x| Cell::from(if x.abs() < EXACT { 0.0 } else { x })));
            table.push(cells);
        }
    }
    table
}
