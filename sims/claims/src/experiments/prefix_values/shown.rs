//! Tables and the figure.

use super::{EXACT_VALUES, GOAL, GROUPS, LAMBDAS, METHODS, Numbers, OPTIMAL, PREFIX, RIDGE, STATE, TEMPO};
use crate::experiments::common::record::{Record, table, yes};
use crate::experiments::common::{mean, quantile};
use crate::figure::{Axis, Figure, Panel, Style};
use grpo_lambda_stats::table::Table;
use serde::{Deserialize, Serialize};

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![(String::new(), rows(n)), ("lambda".into(), lambdas(n))]
}

fn family(of_zoo: bool) -> &'static str {
    if of_zoo { "zoo" } else { "random" }
}

/// A row of `prefix_values.csv`.
#[derive(Serialize, Deserialize)]
pub(crate) struct VarianceRow {
    task: String,
    family: String,
    /// `yes` for a task that was measured at every group size; only such tasks compare group sizes.
    pub(crate) common: String,
    pub(crate) group: usize,
    pub(crate) method: String,
    /// `None` for a biased method, whose ratio compares no variances.
    pub(crate) variance_over_rloo: Option<f64>,
    standard_error: Option<f64>,
    error_at_best_step: f64,
}

fn rows(n: &Numbers) -> Table {
    Table::from_rows(n.rows.iter().flat_map(|r| {
        METHODS.iter().enumerate().map(|(m, (method, ..))| {
            // The ratio of a biased method compares no variances.
            let ratio = (m != TEMPO).then_some(r.ratio[m]);
            VarianceRow {
                task: r.task.clone(),
                family: family(r.of_zoo).to_owned(),
                common: yes(r.common).to_owned(),
                group: r.group,
                method: (*method).to_owned(),
                variance_over_rloo: ratio.map(|r| r.0),
                standard_error: ratio.map(|r| r.1),
                error_at_best_step: r.error[m],
            }
        })
    }))
}

fn lambdas(n: &Numbers) -> Table {
    let mut rows = Vec::new();
    for b in &n.by_lambda {
        for (values, errors) in [("from the group", &b.estimated), ("exact", &b.exact)] {
            rows.extend(LAMBDAS.iter().zip(errors).map(|(lambda, error)| {
                Record::default()
                    .with("task", b.task.as_str())
                    .with("family", family(b.of_zoo))
                    .with("values", values)
                    .with("lambda", *lambda)
                    .with("error_at_best_step", *error)
            }));
        }
    }
    table(rows)
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![(String::new(), figure(n))]
}

fn figure(n: &Numbers) -> Figure {
    let share = |group: usize, method: usize| -> Vec<f64> {
        n.rows.iter().filter(|r| r.group == group && r.common).map(|r| r.ratio[method].0).collect()
    };
    let [small, large] = [GROUPS[0], GROUPS[2]].map(|g| mean(&share(g, PREFIX)));
    let tasks = share(GROUPS[0], PREFIX).len();
    let mut variance = Panel::new("Variance of one update")
        .x(Axis::new("responses per group").categories(GROUPS.map(|g| g.to_string())))
        .y(Axis::new("share of RLOO's variance").range(0.2, 1.15));
    for (place, method) in [PREFIX, STATE, RIDGE, EXACT_VALUES, OPTIMAL].into_iter().enumerate() {
        let points = GROUPS.iter().enumerate().map(|(k, &g)| {
            let values = share(g, method);
            let x = k as f64 + 0.16 * (place as f64 - 2.0);
            (x, quantile(&values, 0.05), mean(&values), quantile(&values, 0.95))
        });
        variance = variance.intervals(METHODS[method].0, points);
    }
    let mut lambda = Panel::new("Error of one update, G = 8")
        .x(Axis::new("λ"))
        .y(Axis::new("error at the best step size").range(0.3, 1.0));
    let errors = |k: usize, exact: bool| {
        mean(&n.by_lambda.iter().map(|b| if exact { b.exact[k] } else { b.estimated[k] }).collect::<Vec<_>>())
    };
    for (name, exact) in [("values from the group, prefix only", false), ("exact values", true)] {
        let points = LAMBDAS.iter().enumerate().map(|(k, &l)| (l, errors(k, exact)));
        lambda = lambda.styled_line(name, Style::Solid, points);
    }
    Figure::new(format!(
        "Unbiased values of prefixes take {:.0} % of RLOO's variance away at G = 8 and {:.0} % at G = 32",
        100.0 * (1.0 - small),
        100.0 * (1.0 - large)
    ))
    .caption(format!(
        "Left: the same {tasks} tasks (the zoo and random trees) at every group size, simulated groups common to all methods; dot: mean over tasks, bar: middle 90 % of tasks. Right: mean over {} tasks; \
         0 is ∇J itself, 1 not stepping at all. Exact values and b* are no methods without a critic; b* = E[Rw|s]/E[w|s], w the squared norm of the score, is the best that a baseline of prefixes can do.",
        n.by_lambda.len()
    ))
    .panel_size(430, 310)
    .panel(variance.hline(1.0, "RLOO").hline(GOAL, "goal"))
    .panel(lambda)
}
