//! The tables.

use grpo_lambda_stats::table::{Cell, Table};
use grpo_lambda_stats::{Interval, mean};

use super::curves::{curve, drawn};
use super::measure::Ranking;
use super::ranking::{level, order};
use super::run::{CostAxis, Run};
use super::why::{QUANTITIES, READINGS, Regime};

pub(super) fn tables(r: &Ranking) -> Vec<(String, Table)> {
    vec![
        (String::new(), ranking(r)),
        ("by_task".into(), by_task(r)),
        ("rates".into(), rates(r)),
        ("curves".into(), curves(r)),
        ("why".into(), why(r)),
        ("correlations".into(), correlations(r)),
    ]
}

/// The three cells of an interval.
fn cells(interval: Interval) -> [Cell; 3] {
    [interval.mid.into(), interval.low.into(), interval.high.into()]
}

/// The columns of the ranking.
const RANKING: [&str; 32] = [
    "against",
    "method",
    "family",
    "knowledge",
    "rank",
    "rank_low",
    "rank_high",
    "rank_low_over_tasks",
    "rank_high_over_tasks",
    "area",
    "area_low",
    "area_high",
    "gain",
    "gain_low",
    "gain_high",
    "improvement",
    "improvement_low",
    "improvement_high",
    "gain_low_over_tasks",
    "gain_high_over_tasks",
    "gain_without_the_task_that_moves_it_most",
    "p",
    "p_holm",
    "tasks_better",
    "tasks_worse",
    "spent_to_90",
    "spent_to_90_low",
    "spent_to_90_high",
    "share_reaching_90",
    "final",
    "command",
    "note",
];

/// One row per competitor and axis, best first, then those that cannot take part.
fn ranking(r: &Ranking) -> Table {
    let mut table = Table::new(&RANKING);
    for axis in CostAxis::ALL {
        for c in order(&r.standings[axis as usize]) {
            table.push(ranked(r, axis, c));
        }
        for excluded in &r.excluded {
            let mut row: Vec<Cell> = vec![axis.name().into(), excluded.entrant.name.into()];
            row.extend([excluded.entrant.family.name().into(), "none".into()]);
            row.resize(RANKING.len() - 2, Cell::Empty);
            row.extend([excluded.entrant.command().into(), excluded.reason.as_str().into()]);
            table.push(row);
        }
    }
    table
}

/// The row of a competitor against an axis.
fn ranked(r: &Ranking, axis: CostAxis, c: usize) -> Vec<Cell> {
    let (s, competitor) = (r.standing(c, axis), &r.results.competitors[c]);
    let mut row: Vec<Cell> = vec![axis.name().into(), competitor.name().into()];
    row.extend([competitor.family().name().into(), competitor.knowledge.name().into()]);
    row.extend(cells(s.rank));
    row.extend([s.rank_over_tasks.low.into(), s.rank_over_tasks.high.into()]);
    row.extend(cells(s.level));
    row.extend(cells(s.gain));
    row.extend(cells(s.improvement));
    let over = s.over_tasks.as_ref().map(|o| o.interval);
    row.extend([over.map(|i| i.low).into(), over.map(|i| i.high).into()]);
    row.push(s.over_tasks.as_ref().map(|o| o.carried_by().1).into());
    row.extend([s.p.into(), s.p_holm.into()]);
    row.extend([Cell::from(s.better().len()), s.worse().len().into()]);
    row.extend(
        level(&r.effort_to_learn(c, axis), r.bootstrap)
            .map_or([Cell::Empty, Cell::Empty, Cell::Empty], cells),
    );
    let last: Vec<f64> =
        r.results.cells[c].iter().filter_map(|cell| mean_of(&cell.runs, |run| run.last)).collect();
    let last = last.iter().sum::<f64>() / r.results.tasks.len() as f64;
    row.extend([r.share_learned(c).into(), last.into()]);
    row.extend([competitor.entrant.command().into(), Cell::Empty]);
    row
}

/// The mean of a number over runs.
fn mean_of(runs: &[Run], score: impl Fn(&Run) -> f64) -> Option<f64> {
    mean(&runs.iter().map(score).collect::<Vec<_>>())
}

/// The median, `None` where it is not finite.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let median = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0;
    median.is_finite().then_some(median)
}

/// One row per task and competitor.
fn by_task(r: &Ranking) -> Table {
    let mut table = Table::new(&[
        "task",
        "method",
        "rate",
        "area_responses",
        "gain_responses",
        "gain_responses_low",
        "gain_responses_high",
        "area_tokens",
        "gain_tokens",
        "gain_tokens_low",
        "gain_tokens_high",
        "responses_to_90",
        "tokens_to_90",
        "share_reaching_90",
        "final",
        "updates",
    ]);
    for (t, task) in r.results.tasks.iter().enumerate() {
        for &c in &r.order {
            let cell = &r.results.cells[c][t];
            let mut row: Vec<Cell> = vec![task.name.as_str().into(), r.name(c).into(), cell.rate.into()];
            for axis in [0, 1] {
                row.push(mean_of(&cell.runs, |run| run.area[axis]).into());
                row.extend(cells(r.standings[axis][c].gains[t]));
            }
            for axis in [0, 1] {
                let spent = cell.runs.iter().map(|run| run.learned[axis].unwrap_or(f64::INFINITY)).collect();
                row.push(median(spent).into());
            }
            let reached = cell.runs.iter().filter(|run| run.learned[0].is_some()).count();
            row.push((reached as f64 / cell.runs.len() as f64).into());
            row.push(mean_of(&cell.runs, |run| run.last).into());
            row.push(mean_of(&cell.runs, |run| run.updates as f64).into());
            table.push(row);
        }
    }
    table
}

/// The selection: one row per task and competitor, the mean area at every rate tried.
fn rates(r: &Ranking) -> Table {
    let grid = r.effort.grid;
    let (low, high) = (grid.low * grid.per_octave - grid.widen, grid.high * grid.per_octave + grid.widen);
    let rate = |k: i32| 2f64.powf(f64::from(k) / f64::from(grid.per_octave));
    let head = ["task", "method", "best_rate", "rates_added", "at_edge"].map(str::to_owned);
    let names = (low..=high).map(|k| format!("area_at_2^{}", f64::from(k) / f64::from(grid.per_octave)));
    let columns: Vec<String> = head.into_iter().chain(names).collect();
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    for (t, task) in r.results.tasks.iter().enumerate() {
        for &c in &r.order {
            let choice = &r.results.choices[c][t];
            let mut row: Vec<Cell> = vec![task.name.as_str().into(), r.name(c).into(), choice.rate.into()];
            row.extend([choice.widened.into(), usize::from(choice.at_edge).into()]);
            row.extend((low..=high).map(|k| {
                let same = |tried: &&(f64, f64, f64)| (tried.0 / rate(k) - 1.0).abs() < 1e-9;
                Cell::from(choice.tried.iter().find(same).map(|tried| tried.1))
            }));
            table.push(row);
        }
    }
    table
}

/// Thinned learning curves of the methods that are drawn.
fn curves(r: &Ranking) -> Table {
    let mut table = Table::new(&["task", "method", "against", "spent", "j", "j_low", "j_high"]);
    for (t, task) in r.results.tasks.iter().enumerate() {
        for c in drawn(r) {
            for axis in CostAxis::ALL {
                for (spent, j) in curve(r, c, t, axis).into_iter().step_by(6) {
                    let mut row: Vec<Cell> = vec![task.name.as_str().into(), r.name(c).into()];
                    row.extend([axis.name().into(), spent.into()]);
                    row.extend(cells(j));
                    table.push(row);
                }
            }
        }
    }
    table
}

/// One row per reading and task: gains under every regime, and the quantities.
fn why(r: &Ranking) -> Table {
    let mut columns: Vec<String> = ["reading", "task", "ranked", "exact"].map(str::to_owned).to_vec();
    for regime in Regime::ALL {
        columns.extend(["", "_low", "_high"].map(|end| format!("gain_{}{end}", regime.name())));
    }
    columns.extend(["p", "p_holm"].map(str::to_owned));
    columns.extend(QUANTITIES.iter().map(|q| q.name.to_owned()));
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    for case in &r.why.cases {
        let mut row: Vec<Cell> = vec![READINGS[case.reading].into(), case.task.as_str().into()];
        row.extend([usize::from(case.named).into(), usize::from(case.exact).into()]);
        row.extend(case.gains.iter().flat_map(|&gain| cells(gain)));
        row.extend([case.p.into(), case.p_holm.into()]);
        row.extend(case.quantities.iter().map(|&x| Cell::from(x)));
        table.push(row);
    }
    table
}

/// One row per reading, regime and quantity.
fn correlations(r: &Ranking) -> Table {
    let mut table = Table::new(&[
        "reading",
        "regime",
        "quantity",
        "about",
        "tasks",
        "rho",
        "rho_low",
        "rho_high",
        "p",
        "p_holm",
        "explains",
        "sign_agrees",
        "decided",
        "against",
    ]);
    for c in &r.why.correlations {
        let mut row: Vec<Cell> = vec![READINGS[c.reading].into(), c.regime.name().into()];
        row.extend([QUANTITIES[c.quantity].name.into(), QUANTITIES[c.quantity].about.into()]);
        row.push(c.tasks.into());
        row.extend(cells(c.rho));
        row.extend([c.p.into(), c.p_holm.into(), usize::from(c.explains()).into()]);
        if QUANTITIES[c.quantity].signed {
            row.extend([c.agree.0.into(), c.agree.1.into(), c.against.join(" | ").into()]);
        } else {
            row.extend([Cell::Empty, Cell::Empty, Cell::Empty]);
        }
        table.push(row);
    }
    table
}
