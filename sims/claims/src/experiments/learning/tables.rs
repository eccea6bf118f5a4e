//! Tables.

use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::{Cell, Table};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::measure::Comparison;
use super::reading::CURVES;
use super::scores::Regime;
use crate::training::GROUP;

pub(super) fn tables(c: &Comparison) -> Vec<(String, Table)> {
    vec![
        (String::new(), overall(c)),
        ("by_mdp".into(), by_mdp(c)),
        ("rates".into(), rates(c)),
        ("curves".into(), curves(c)),
        ("sweep".into(), sweep(c)),
    ]
}

/// The three cells of an interval.
fn cells(interval: Option<Interval>) -> [Cell; 3] {
    [interval.map(|i| i.mid).into(), interval.map(|i| i.low).into(), interval.map(|i| i.high).into()]
}

/// A row of `learning.csv`: a method in a regime, over all MDPs.
#[derive(Serialize, Deserialize)]
pub(crate) struct OverallRow {
    pub(crate) regime: String,
    pub(crate) method: String,
    area: f64,
    area_low: f64,
    area_high: f64,
    pub(crate) gain: f64,
    gain_low: f64,
    gain_high: f64,
    pub(crate) gain_low_over_tasks: f64,
    pub(crate) gain_high_over_tasks: f64,
    pub(crate) gain_median_over_tasks: f64,
    pub(crate) p_over_tasks: f64,
    task_that_moves_the_gain_most: String,
    gain_without_it: f64,
    gain_percent: f64,
    improvement: f64,
    improvement_low: f64,
    improvement_high: f64,
    r#final: f64,
    mdps_better: usize,
    mdps_worse: usize,
    command: String,
}

fn overall(c: &Comparison) -> Table {
    let row = |(regime, reading): (Regime, usize)| {
        let o = c.overall(regime, reading)?;
        let (task, without) = o.over_tasks.carried_by();
        Some(OverallRow {
            regime: regime.name().to_owned(),
            method: c.readings[reading].name.clone(),
            area: o.area.mid,
            area_low: o.area.low,
            area_high: o.area.high,
            gain: o.gain.mid,
            gain_low: o.gain.low,
            gain_high: o.gain.high,
            gain_low_over_tasks: o.over_tasks.interval.low,
            gain_high_over_tasks: o.over_tasks.interval.high,
            gain_median_over_tasks: o.over_tasks.median,
            p_over_tasks: o.over_tasks.p,
            task_that_moves_the_gain_most: c.tasks[task].name.clone(),
            gain_without_it: without,
            gain_percent: o.percent.mid,
            improvement: o.improvement.mid,
            improvement_low: o.improvement.low,
            improvement_high: o.improvement.high,
            r#final: o.last,
            mdps_better: o.better.len(),
            mdps_worse: o.worse.len(),
            command: c.readings[reading].command(),
        })
    };
    Table::from_rows(c.keys().into_iter().filter_map(row))
}

/// One row per MDP, method and regime.
fn by_mdp(c: &Comparison) -> Table {
    let mut table = Table::new(&[
        "mdp",
        "regime",
        "method",
        "rate",
        "area",
        "area_low",
        "area_high",
        "gain",
        "gain_low",
        "gain_high",
        "improvement",
        "final",
        "responses_to_90",
        "share_reaching_90",
    ]);
    let row = |(task, (regime, reading)): (usize, (Regime, usize))| -> Option<Vec<Cell>> {
        let cell = c.scores.cell(regime, reading, task)?;
        let one = task..task + 1;
        let mut row: Vec<Cell> = vec![
            c.tasks[task].name.as_str().into(),
            regime.name().into(),
            c.readings[reading].name.as_str().into(),
        ];
        row.push(cell.rate.into());
        row.extend(cells(c.scores.level(regime, reading, one.clone(), |run| run.area)));
        row.extend(cells(c.overall(regime, reading).map(|o| o.gains[task])));
        row.push(c.scores.improvement_point(regime, reading, task).into());
        row.push(c.scores.point(regime, reading, one, |run| run.last).into());
        row.extend([cell.median_learned().into(), cell.share_learned().into()]);
        Some(row)
    };
    let keys = c.keys();
    let pairs: Vec<_> = (0..c.tasks.len()).flat_map(|task| keys.iter().map(move |&k| (task, k))).collect();
    let rows: Vec<_> = pairs.into_par_iter().filter_map(row).collect();
    rows.into_iter().for_each(|row| table.push(row));
    table
}

/// One row per MDP and method: the chosen rate, and the exact first update.
fn rates(c: &Comparison) -> Table {
    let mut table = Table::new(&[
        "mdp",
        "j_start",
        "j_best",
        "shortest",
        "longest",
        "method",
        "best_rate",
        "rates_added",
        "at_edge",
        "cosine",
        "scale",
        "scale_over_grpo",
        "bias",
        "sign_agreement",
    ]);
    for (t, task) in c.tasks.iter().enumerate() {
        for (r, reading) in c.readings.iter().enumerate() {
            let choice = &c.choices[r][t];
            let (exact, grpo) = (c.exact.updates[r][t], c.exact.updates[0][t]);
            table.push(vec![
                task.name.as_str().into(),
                task.start_j.into(),
                task.best.into(),
                task.shortest.into(),
                task.longest.into(),
                reading.name.as_str().into(),
                choice.rate.into(),
                choice.widened.into(),
                usize::from(choice.at_edge).into(),
                exact.map(|e| e.cosine).into(),
                exact.map(|e| e.scale).into(),
                exact.zip(grpo).map(|(e, g)| e.scale / g.scale).into(),
                exact.map(|e| e.bias).into(),
                exact.map(|e| e.sign_agreement).into(),
            ]);
        }
    }
    table
}

/// The learning curves of the figures.
fn curves(c: &Comparison) -> Table {
    let mut table = Table::new(&["mdp", "regime", "method", "responses", "j", "j_low", "j_high"]);
    for (t, task) in c.tasks.iter().enumerate() {
        for regime in [Regime::Cautious, Regime::OwnBest] {
            for name in CURVES {
                let Some(curve) = c.scores.curve(regime, c.index(name), t) else { continue };
                // Every fourth point: the table stays readable, the figure shows them all.
                for (i, point) in curve.into_iter().enumerate().step_by(4) {
                    let responses = i * c.plan.every * GROUP;
                    let mut row =
                        vec![task.name.as_str().into(), regime.name().into(), name.into(), responses.into()];
                    row.extend(cells(Some(point)));
                    table.push(row);
                }
            }
        }
    }
    table
}

/// The selection runs: mean area against the learning rate.
fn sweep(c: &Comparison) -> Table {
    let mut table = Table::new(&["method", "rate_over_best_of_grpo", "area"]);
    for (name, points) in &c.sweeps {
        for &(ratio, area, _) in points {
            table.push(vec![name.as_str().into(), ratio.into(), area.into()]);
        }
    }
    table
}
