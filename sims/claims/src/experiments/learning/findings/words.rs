//! Numbers and names as they stand in findings.

use grpo_lambda_stats::Interval;

use crate::experiments::common::text::list;
use crate::experiments::learning::measure::Comparison;
use crate::experiments::learning::scores::Overall;

pub(super) fn interval(i: Interval) -> String {
    format!("{:+.3} [{:+.3}, {:+.3}]", i.mid, i.low, i.high)
}

/// Names of tasks.
pub(super) fn names(c: &Comparison, tasks: &[usize]) -> String {
    list(&tasks.iter().map(|&t| c.tasks[t].name.as_str()).collect::<Vec<_>>())
}

/// A gain over GRPO with the tasks as the sample: interval, and the mean without the task that moves it most.
pub(super) fn over_tasks(c: &Comparison, o: &Overall) -> String {
    let (task, without) = o.over_tasks.carried_by();
    let name = c.tasks.get(task).map_or("?", |t| t.name.as_str());
    format!("{}, without {name} {without:+.4}", interval(o.over_tasks.interval))
}

/// A reading against GRPO in full.
pub(super) fn numbers(c: &Comparison, name: &str, o: &Overall) -> String {
    format!(
        "{name}: area {:.3} against {:.3}, gain over runs {} ({:+.1} %), over tasks {} (median {:+.4}), P(better run) {:.2} [{:.2}, {:.2}], better on {} ({}), worse on {} ({}) of {} MDPs",
        o.area.mid,
        o.area.mid - o.gain.mid,
        interval(o.gain),
        o.percent.mid,
        over_tasks(c, o),
        o.over_tasks.median,
        o.improvement.mid,
        o.improvement.low,
        o.improvement.high,
        o.better.len(),
        names(c, &o.better),
        o.worse.len(),
        names(c, &o.worse),
        c.tasks.len()
    )
}
