use super::measure::{Ranking, curve, drawn};
use super::ranking::{Standing, order};
use super::results::CostAxis;
use crate::experiments::common::record::{Record, table};
use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::{Cell, Table};

pub(super) fn tables(r: &Ranking) -> Vec<(String, Table)> {
    vec![
        (String::new(), ranking(r)),
        ("by_task".into(), by_task(r)),
        ("rates".into(), rates(r)),
        ("curves".into(), curves(r)),
    ]
}

/// One row per competitor and axis, best first, then those that cannot take part.
fn ranking(r: &Ranking) -> Table {
    table(CostAxis::ALL.into_iter().flat_map(|axis| {
        let ranked = order(&r.standings[axis as usize]).into_iter().map(move |c| ranked(r, axis, c));
        ranked.chain(r.excluded.iter().map(move |excluded| {
            let row = Record::default()
                .with("against", axis.name())
                .with("method", excluded.entry.name)
                .with("family", excluded.entry.family.name())
                .with("knowledge", "none");
            standing(row, None)
                .with("command", excluded.entry.command())
                .with("note", excluded.reason.as_str())
        }))
    }))
}

/// The row of a competitor against an axis.
fn ranked(r: &Ranking, axis: CostAxis, c: usize) -> Record {
    let competitor = &r.results.competitors[c];
    let last = r.results.cells[c].iter().filter_map(|cell| cell.mean(|run| run.last));
    let last = last.sum::<f64>() / r.results.tasks.len() as f64;
    let row = Record::default()
        .with("against", axis.name())
        .with("method", competitor.name())
        .with("family", competitor.family().name())
        .with("knowledge", competitor.knowledge.name());
    let outcome = Outcome {
        standing: r.standing(c, axis),
        spent: r.spent(c, axis),
        share_learned: r.share_learned(c),
        last,
    };
    standing(row, Some(outcome)).with("command", competitor.entry.command()).with("note", Cell::Empty)
}

/// A competitor's results against an axis.
struct Outcome<'a> {
    standing: &'a Standing,
    /// Spent to reach 90 %.
    spent: Option<Interval>,
    share_learned: f64,
    last: f64,
}

/// Adds the columns of an outcome, empty if there is none.
fn standing(row: Record, outcome: Option<Outcome>) -> Record {
    let s = outcome.as_ref().map(|o| o.standing);
    let over = s.and_then(|s| s.over_tasks.as_ref());
    let count = |tasks: fn(&Standing) -> Vec<usize>| s.map(|s| tasks(s).len() as f64);
    row.interval("rank", s.map(|s| s.rank))
        .with("rank_low_over_tasks", s.map(|s| s.rank_over_tasks.low))
        .with("rank_high_over_tasks", s.map(|s| s.rank_over_tasks.high))
        .interval("area", s.map(|s| s.level))
        .interval("gain", s.map(|s| s.gain))
        .interval("improvement", s.map(|s| s.improvement))
        .with("gain_low_over_tasks", over.map(|o| o.interval.low))
        .with("gain_high_over_tasks", over.map(|o| o.interval.high))
        .with("gain_median_over_tasks", over.map(|o| o.median))
        .with("p_over_tasks", over.map(|o| o.p))
        .with("gain_without_the_task_that_moves_it_most", over.map(|o| o.carried_by().1))
        .with("p", s.map(|s| s.p))
        .with("p_holm", s.map(|s| s.p_holm))
        .with("tasks_better", count(Standing::better))
        .with("tasks_worse", count(Standing::worse))
        .interval("spent_to_90", outcome.as_ref().and_then(|o| o.spent))
        .with("share_reaching_90", outcome.as_ref().map(|o| o.share_learned))
        .with("final", outcome.as_ref().map(|o| o.last))
}

/// Every task with every competitor, best first.
fn pairs(r: &Ranking) -> impl Iterator<Item = (usize, usize)> {
    (0..r.results.tasks.len()).flat_map(|t| r.order.iter().map(move |&c| (t, c)))
}

/// One row per task and competitor.
fn by_task(r: &Ranking) -> Table {
    table(pairs(r).map(|(t, c)| {
        let cell = &r.results.cells[c][t];
        Record::default()
            .with("task", r.results.tasks[t].name.as_str())
            .with("method", r.name(c))
            .with("rate", cell.rate)
            .with("area_responses", cell.mean(|run| run.area[0]))
            .interval("gain_responses", r.standings[0][c].gains[t])
            .with("area_tokens", cell.mean(|run| run.area[1]))
            .interval("gain_tokens", r.standings[1][c].gains[t])
            .with("responses_to_90", cell.median_learned(|run| run.learned[0]))
            .with("tokens_to_90", cell.median_learned(|run| run.learned[1]))
            .with("share_reaching_90", cell.share_learned(|run| run.learned[0]))
            .with("final", cell.mean(|run| run.last))
            .with("updates", cell.mean(|run| run.updates as f64))
    }))
}

/// The selection: one row per task and competitor, the mean area at every rate tried.
fn rates(r: &Ranking) -> Table {
    let grid = r.effort.grid;
    let (low, high) = (grid.low * grid.per_octave - grid.widen, grid.high * grid.per_octave + grid.widen);
    table(pairs(r).map(|(t, c)| {
        let choice = &r.results.choices[c][t];
        let chosen = Record::default()
            .with("task", r.results.tasks[t].name.as_str())
            .with("method", r.name(c))
            .with("best_rate", choice.rate)
            .with("rates_added", choice.widened)
            .with("at_edge", usize::from(choice.at_edge));
        (low..=high).fold(chosen, |row, k| {
            let exponent = f64::from(k) / f64::from(grid.per_octave);
            let same = |tried: &&(f64, f64, f64)| (tried.0 / 2f64.powf(exponent) - 1.0).abs() < 1e-9;
            row.with(format!("area_at_2^{exponent}"), choice.tried.iter().find(same).map(|tried| tried.1))
        })
    }))
}

/// Thinned learning curves of the methods that are drawn.
fn curves(r: &Ranking) -> Table {
    let mut rows = Vec::new();
    for (t, task) in r.results.tasks.iter().enumerate() {
        for c in drawn(r) {
            for axis in CostAxis::ALL {
                let points = curve(r, c, t, axis).into_iter().step_by(6);
                rows.extend(points.map(|(spent, j)| {
                    Record::default()
                        .with("task", task.name.as_str())
                        .with("method", r.name(c))
                        .with("against", axis.name())
                        .with("spent", spent)
                        .interval("j", j)
                }));
            }
        }
    }
    table(rows)
}
