//! Tables.

use super::measure::Comparison;
use super::scores::{Key, Regime};
use super::variant::CURVES;
use crate::experiment::CASES;
use crate::experiments::common::record::{Record, table};
use crate::training::GROUP;
use grpo_lambda_stats::table::Table;
use rayon::prelude::*;

pub(super) fn tables(c: &Comparison) -> Vec<(String, Table)> {
    vec![
        (String::new(), overall(c)),
        (CASES.into(), by_mdp(c)),
        ("rates".into(), rates(c)),
        ("curves".into(), curves(c)),
    ]
}

/// One row per regime and method, over all MDPs.
fn overall(c: &Comparison) -> Table {
    let row = |(regime, variant): Key| {
        let o = c.overall(regime, variant)?;
        let (task, without) = o.over_tasks.carried_by();
        let row = Record::default()
            .with("regime", regime.name())
            .with("method", c.variants[variant].name.as_str())
            .interval("area", o.area)
            .interval("gain", o.gain)
            .with("gain_low_over_tasks", o.over_tasks.interval.low)
            .with("gain_high_over_tasks", o.over_tasks.interval.high)
            .with("gain_median_over_tasks", o.over_tasks.median)
            .with("p_over_tasks", o.over_tasks.p)
            .with("task_that_moves_the_gain_most", c.tasks[task].name.as_str())
            .with("gain_without_it", without)
            .with("gain_percent", o.percent.mid)
            .interval("improvement", o.improvement)
            .with("final", o.last)
            .with("mdps_better", o.better.len())
            .with("mdps_worse", o.worse.len())
            .with("command", c.variants[variant].command());
        Some(row)
    };
    table(c.keys().into_iter().filter_map(row))
}

/// One row per MDP, method and regime.
fn by_mdp(c: &Comparison) -> Table {
    let row = |(t, (regime, variant)): (usize, Key)| {
        let (of, one, task) = ((regime, variant), t..t + 1, &c.tasks[t]);
        let cell = c.scores.cell(of, t)?;
        let row = Record::default()
            .with("mdp", task.name.as_str())
            .with("regime", regime.name())
            .with("method", c.variants[variant].name.as_str())
            .with("rate", cell.rate)
            .interval("area", c.scores.level(of, one.clone(), |run| run.area))
            .interval("gain", c.overall(regime, variant).map(|o| o.gains[t]))
            .with("improvement", c.scores.improvement(of, t))
            .with("final", c.scores.point(of, one, |run| run.last))
            .with("responses_to_90", cell.median_learned(|run| run.learned))
            .with("share_reaching_90", cell.share_learned(|run| run.learned));
        Some(row)
    };
    let keys = c.keys();
    let pairs: Vec<_> = (0..c.tasks.len()).flat_map(|task| keys.iter().map(move |&k| (task, k))).collect();
    table(pairs.into_par_iter().filter_map(row).collect::<Vec<_>>())
}

/// One row per MDP and method: the chosen rate, and the exact first update.
fn rates(c: &Comparison) -> Table {
    let pairs = c.tasks.iter().enumerate().flat_map(|pair| (0..c.variants.len()).map(move |r| (pair, r)));
    table(pairs.map(|((t, task), r)| {
        let choice = &c.choices[r][t];
        let (exact, grpo) = (c.exact.updates[r][t], c.exact.updates[0][t]);
        Record::default()
            .with("mdp", task.name.as_str())
            .with("j_start", task.start_j)
            .with("j_best", task.best)
            .with("shortest", task.shortest)
            .with("longest", task.longest)
            .with("method", c.variants[r].name.as_str())
            .with("best_rate", choice.rate)
            .with("rates_added", choice.widened)
            .with("at_edge", usize::from(choice.at_edge))
            .with("cosine", exact.map(|e| e.cosine))
            .with("scale", exact.map(|e| e.scale))
            .with("scale_over_grpo", exact.zip(grpo).map(|(e, g)| e.scale / g.scale))
            .with("bias", exact.map(|e| e.bias))
            .with("sign_agreement", exact.map(|e| e.sign_agreement))
    }))
}

/// The learning curves of the figures.
fn curves(c: &Comparison) -> Table {
    let mut rows = Vec::new();
    for (t, task) in c.tasks.iter().enumerate() {
        for regime in [Regime::Cautious, Regime::OwnBest] {
            for name in CURVES {
                let curve = c.scores.curve((regime, c.index(name)), t).unwrap_or_default();
                // Every fourth point: the table stays readable, the figure shows them all.
                rows.extend(curve.into_iter().enumerate().step_by(4).map(|(i, point)| {
                    Record::default()
                        .with("mdp", task.name.as_str())
                        .with("regime", regime.name())
                        .with("method", name)
                        .with("responses", i * c.plan.every * GROUP)
                        .interval("j", point)
                }));
            }
        }
    }
    table(rows)
}
