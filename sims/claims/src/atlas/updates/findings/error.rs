//! The error of one update at the best step size.

use crate::atlas::entrants::{BASELINE, ENTRANTS, Family};
use crate::atlas::updates::measure::Atlas;
use crate::atlas::updates::overall::{BUDGET, Overall, names};
use crate::atlas::updates::row::{Column, GROUP};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::findings::{finding, holds_or};
use crate::experiments::common::text::short;

/// A reading with a trace against the reading of GRPO that differs from it only by the trace.
pub(super) fn tracing(atlas: &Atlas, all: &[Overall]) -> Finding {
    let place = |name: &str| ENTRANTS.iter().position(|e| e.name == name);
    let mut numbers = Vec::new();
    let (mut lower, mut higher) = (0, 0);
    for (traced, plain) in [
        ("GRPO-λ recent, no clamp", BASELINE),
        ("GRPO-λ both, no clamp", BASELINE),
        ("GRPO-λ recent", "GRPO, clamp -0.1"),
        ("GRPO-λ both", "GRPO, clamp -0.1"),
        ("P-trace (recon.)", BASELINE),
    ] {
        let (Some(t), Some(p)) = (place(traced), place(plain)) else { continue };
        let pairs: Vec<(f64, f64)> = atlas
            .rows_of(t, GROUP)
            .zip(atlas.rows_of(p, GROUP))
            .filter_map(|(a, b)| Some((a.get(Column::Mse)?, b.get(Column::Mse)?)))
            .collect();
        // Differences that rounding could make are none.
        let (down, up) = (
            pairs.iter().filter(|(a, b)| *a < b - 1e-6).count(),
            pairs.iter().filter(|(a, b)| *a > b + 1e-6).count(),
        );
        lower += down;
        higher += up;
        numbers.push(format!(
            "{traced} {} against {} ({plain}); lower on {down} and higher on {up} of {} tasks",
            short(all[t].mse),
            short(all[p].mse),
            pairs.len()
        ));
    }
    let statement = format!("A trace lowers the error of one update at the best step size (G = {GROUP})");
    let numbers = format!("mean error relative to |∇J|²: {}", numbers.join("; "));
    let verdict = match (lower, higher) {
        (_, 0) => Verdict::Holds,
        (0, _) => Verdict::Fails(format!("higher in all {higher} cases that differ")),
        _ if higher > lower => {
            Verdict::Fails(format!("higher in {higher} of {} cases that differ", lower + higher))
        }
        _ => Verdict::HoldsWhen(format!("lower in {lower} of {} cases that differ", lower + higher)),
    };
    finding(statement, verdict, numbers)
}

pub(super) fn equal_cost(all: &[Overall]) -> Finding {
    let mut paid: Vec<(&Overall, f64)> = all.iter().filter_map(|o| Some((o, o.mse_at_budget?))).collect();
    paid.sort_by(|a, b| a.1.total_cmp(&b.1));
    let top: Vec<String> = paid
        .iter()
        .filter(|(o, _)| o.entrant.name != BASELINE)
        .take(6)
        .map(|(o, m)| format!("{} {}", o.entrant.name, short(*m)))
        .collect();
    let base = paid.iter().find(|(o, _)| o.entrant.name == BASELINE).map_or(f64::NAN, |p| p.1);
    let beyond = names(all.iter().filter(|o| o.mse_at_budget.is_none()));
    let best_traced = paid.iter().find(|(o, _)| o.entrant.family == Family::Trace);
    let first = paid.first().map_or("", |(o, _)| o.entrant.name);
    let free: Vec<&(&Overall, f64)> =
        paid.iter().filter(|(o, _)| o.entrant.family == Family::Group).collect();
    let plain = free.first().map_or((f64::NAN, ""), |(o, m)| (*m, o.entrant.name));
    let ok = paid.first().is_some_and(|(o, _)| o.entrant.family != Family::Group);
    let traced =
        best_traced.map_or(String::new(), |(o, m)| format!("; best trace: {} {}", o.entrant.name, short(*m)));
    let numbers = format!(
        "mean error of one update that costs {BUDGET} responses written or scored: {}; {BASELINE} {}{traced}. Beyond the budget even in groups of two on some task: {beyond}",
        top.join(", "),
        short(base)
    );
    let statement = "At equal cost a method with finer credit has the lowest error of one update";
    let verdict = if ok {
        Verdict::HoldsWhen(format!(
            "it is {first} ({}; best with one number per response: {} {})",
            short(paid.first().map_or(f64::NAN, |p| p.1)),
            plain.1,
            short(plain.0)
        ))
    } else {
        Verdict::Fails(format!("the lowest is {} with {}", plain.1, short(plain.0)))
    };
    finding(statement, verdict, numbers)
}

pub(super) fn credit(atlas: &Atlas) -> Finding {
    let mut ranked: Vec<(&str, f64, f64)> = Vec::new();
    for (e, entrant) in ENTRANTS.iter().enumerate() {
        let rows: Vec<_> = atlas.rows_of(e, GROUP).collect();
        let mean = |column| {
            let values: Vec<f64> = rows.iter().filter_map(|r| r.get(column)).collect();
            values.iter().sum::<f64>() / values.len().max(1) as f64
        };
        ranked.push((entrant.name, mean(Column::CreditRankCorrelation), mean(Column::CreditR2)));
    }
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    let show = |(name, rank, r2): &(&str, f64, f64)| format!("{name} {} ({})", short(*rank), short(*r2));
    let lowest: Vec<String> = ranked.iter().take(6).map(show).collect();
    let base = ranked.iter().find(|r| r.0 == BASELINE);
    let (below, all) = (base.map_or(0, |b| ranked.iter().filter(|r| r.1 < b.1 - 1e-9).count()), ranked.len());
    let numbers = format!(
        "rank correlation (and R²) of implied credit with A, mean over tasks: {} {}; lowest {}",
        BASELINE,
        base.map_or(String::new(), |b| format!("{} ({})", short(b.1), short(b.2))),
        lowest.join(", ")
    );
    let statement =
        "Methods that assign credit per token rank a prefix's tokens better, in expectation, than GRPO";
    let verdict = holds_or(
        below == 0,
        format!(
            "{below} of {all} readings rank them worse than {BASELINE}, {} the worst",
            ranked.first().map_or("", |r| r.0)
        ),
    );
    finding(statement, verdict, numbers)
}
