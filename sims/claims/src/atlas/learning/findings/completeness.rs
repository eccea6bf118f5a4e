//! Entrants left out, and rates at an end of the grid.

use crate::atlas::entrants::ENTRANTS;
use crate::atlas::learning::measure::Ranking;
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{finding, holds_or};
use crate::training::GROUP;
use grpo_lambda_stats::table::significant;

pub(super) fn grid(r: &Ranking) -> Finding {
    let all: Vec<_> = r.results.choices.iter().flatten().collect();
    let widened = all.iter().filter(|choice| choice.widened > 0).count();
    let mut edges = Vec::new();
    for (c, row) in r.results.choices.iter().enumerate() {
        for (t, choice) in row.iter().enumerate().filter(|(_, choice)| choice.at_edge) {
            edges.push(format!(
                "{} on {} ({})",
                r.name(c),
                r.results.tasks[t].name,
                significant(choice.rate, 3)
            ));
        }
    }
    let g = r.effort.grid;
    finding(
        "Every best learning rate lies inside the grid that was tried",
        match edges.len() {
            0 => Verdict::Holds,
            n => Verdict::HoldsWhen(format!("apart from {n} of {} choices: {}", all.len(), edges.join(", "))),
        },
        format!(
            "2^{} to 2^{}, {} rate(s) per doubling, {} selection runs per rate on streams that are not reported, the smallest rate within 0.005 of the best mean area against responses; {widened} of {} grids widened",
            g.low,
            g.high,
            g.per_octave,
            g.seeds,
            all.len()
        ),
    )
}

pub(super) fn everyone(r: &Ranking) -> Finding {
    let reasons: Vec<String> =
        r.excluded.iter().map(|e| format!("{}: {}", e.entrant.name, e.reason)).collect();
    finding(
        "Every entrant of the atlas can learn on a table",
        holds_or(reasons.is_empty(), reasons.join("; ")),
        format!(
            "{} competitors of {} entrants (those that need values take part twice); tasks with rewards 0 or 1, so that the teacher of RLSD is defined; one group of {GROUP} and one step per update, so that clipping never binds and methods that differ between prompts or off policy only coincide",
            r.results.competitors.len(),
            ENTRANTS.len()
        ),
    )
}
