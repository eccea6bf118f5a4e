use grpo_lambda_stats::table::Table;

use super::measure::Numbers;
use crate::experiments::common::record::{Record, table, yes};

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        (String::new(), efficiencies(n)),
        ("weights".into(), weights(n)),
        ("learning".into(), learning(n)),
        ("learning_overall".into(), overall(n)),
    ]
}

fn efficiencies(n: &Numbers) -> Table {
    table(n.efficiencies.iter().map(|e| {
        let own = Record::default()
            .with("weights", e.span.name)
            .with("by_prefix", yes(e.span.by_prefix))
            .with("fitted", yes(e.span.fitted))
            .with("held_out", e.held_out.interval.mid.exp())
            .with("held_out_low", e.held_out.interval.low.exp())
            .with("held_out_high", e.held_out.interval.high.exp())
            .with("in_sample", e.in_sample.exp())
            .with("astray", e.astray);
        n.families.iter().zip(&e.families).fold(own, |row, (family, x)| row.with(family.as_str(), x.exp()))
    }))
}

fn weights(n: &Numbers) -> Table {
    let fitted = n.efficiencies.iter().filter(|e| e.span.fitted);
    table(fitted.flat_map(|e| {
        e.alpha.iter().enumerate().map(|(feature, alpha)| {
            Record::default().with("weights", e.span.name).with("feature", feature).with("alpha", *alpha)
        })
    }))
}

fn learning(n: &Numbers) -> Table {
    let on_tasks =
        n.trained.iter().flat_map(|trained| trained.tasks.iter().map(move |on| (trained.name, on)));
    table(on_tasks.filter(|(_, on)| on.area.is_some()).map(|(method, on)| {
        Record::default()
            .with("method", method)
            .with("mdp", on.task.as_str())
            .with("rate", on.learned.rate)
            .interval("area", on.area)
    }))
}

fn overall(n: &Numbers) -> Table {
    table(n.overall.iter().map(|o| {
        Record::default()
            .with("method", o.name)
            .interval("area", o.area)
            .interval("over_rloo", o.over_rloo.gain)
            .bounds("over_rloo_over_tasks", o.over_rloo.over_tasks.interval)
            .with("p_rloo_over_tasks", o.over_rloo.over_tasks.p)
            .interval("p_rloo", o.over_rloo.improves)
            .interval("over_grpo", o.over_grpo.gain)
            .bounds("over_grpo_over_tasks", o.over_grpo.over_tasks.interval)
            .with("p_grpo_over_tasks", o.over_grpo.over_tasks.p)
            .interval("p_grpo", o.over_grpo.improves)
    }))
}
