//! The implied credit of single tokens, and closed forms.

use crate::atlas::entrants::{BASELINE, ENTRANTS};
use crate::atlas::updates::agreement;
use crate::atlas::updates::measure::Atlas;
use crate::atlas::updates::row::{Column, GROUP};
use crate::experiment::Finding;
use crate::experiments::common::findings::{finding, holds_or};
use crate::experiments::common::text::short;

pub(super) fn credit(atlas: &Atlas) -> Finding {
    let mut ranked: Vec<(&str, f64, f64)> = Vec::new();
    for (e, entrant) in ENTRANTS.iter().enumerate() {
        let rows: Vec<_> = atlas.of(e, GROUP).collect();
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

pub(super) fn identities(atlas: &Atlas) -> Finding {
    let failing: Vec<&str> = atlas
        .agreement
        .iter()
        .filter(|c| c.worst >= agreement::EXACT || c.tasks == 0)
        .map(|c| c.method)
        .collect();
    let worst = atlas.agreement.iter().map(|c| c.worst).fold(0.0, f64::max);
    let verdict = holds_or(failing.is_empty(), failing.join(", "));
    let tested: usize = atlas.agreement.iter().map(|c| c.tasks).sum();
    let bound = if worst < agreement::EXACT { format!("below {:e}", agreement::EXACT) } else { short(worst) };
    finding(
        "Closed forms of expected updates hold on every task where the sums are feasible",
        verdict,
        format!("{} closed forms, {tested} cases, largest relative error {bound}", atlas.agreement.len()),
    )
}
