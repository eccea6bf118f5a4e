//! Tables and the figure.

use super::findings::{among_lambdas, among_methods, at, beyond, ratios, reached};
use super::{
    ByLambda, ESTIMATED, EXACT, EXACT_VALUES, GOAL, GROUPS, LAMBDAS, METHODS, Numbers, OPTIMAL, PREFIX,
    RIDGE, STATE, TEMPO,
};
use crate::experiments::common::chart::chart;
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{average, mean, quantile};
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_stats::table::Table;
use serde::Serialize;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        (String::new(), table(GROUPS.into_iter().flat_map(|group| methods(n, group)))),
        ("lambda".into(), Table::from_rows(lambdas(n))),
    ]
}

/// A row per method in groups of a size, over the tasks that were measured at every size. The share of RLOO's variance
/// is the mean and the middle 90 % of tasks, none for a biased method, whose ratio compares no variances; tasks are below
/// and above it by two standard errors. The error stands next to that of Prefix RLOO where the two are compared, with
/// Student's t over tasks.
fn methods(n: &Numbers, group: usize) -> impl Iterator<Item = Record> {
    let rows = at(n, group);
    let (_, apart) = among_methods(&rows);
    METHODS.iter().enumerate().map(move |(m, (name, ..))| {
        let unbiased = m != TEMPO;
        let ratios = ratios(&rows, m);
        let beyond = unbiased.then(|| beyond(&rows, m));
        Record::default()
            .with("group", group)
            .with("method", *name)
            .with("tasks", rows.len())
            .with("variance_over_rloo", unbiased.then(|| mean(&ratios)))
            .with("variance_p05", unbiased.then(|| quantile(&ratios, 0.05)))
            .with("variance_p95", unbiased.then(|| quantile(&ratios, 0.95)))
            .with("share_at_goal", unbiased.then(|| reached(&rows, m)))
            .with("tasks_below", beyond.map(|(below, _)| below as f64))
            .with("tasks_above", beyond.map(|(_, above)| above as f64))
            .with("error_at_best_step", average(rows.iter().map(|r| r.error[m])))
            .interval("minus_prefix_rloo", apart.iter().find(|(rival, _)| rival == name).map(|(_, i)| *i))
    })
}

/// The mean error at a λ, and what it has above that at λ = 1, or 0 with exact values; a row of
/// `prefix_values_lambda.csv`.
#[derive(Serialize)]
struct LambdaRow {
    values: &'static str,
    lambda: f64,
    error_at_best_step: f64,
    above_reference: Option<f64>,
    above_reference_low: Option<f64>,
    above_reference_high: Option<f64>,
}

fn lambdas(n: &Numbers) -> Vec<LambdaRow> {
    type Errors = fn(&ByLambda) -> &Vec<f64>;
    let kinds: [(_, Errors, _); 2] =
        [(ESTIMATED, |b| &b.estimated, LAMBDAS.len() - 1), (EXACT, |b| &b.exact, 0)];
    let rows = kinds.into_iter().flat_map(|(values, of, reference)| {
        let (_, apart) = among_lambdas(n, of, reference);
        LAMBDAS.into_iter().enumerate().map(move |(k, lambda)| {
            let own = apart.iter().find(|(name, _)| *name == lambda.to_string()).map(|(_, i)| *i);
            LambdaRow {
                values,
                lambda,
                error_at_best_step: average(n.by_lambda.iter().map(|b| of(b)[k])),
                above_reference: own.map(|i| i.mid),
                above_reference_low: own.map(|i| i.low),
                above_reference_high: own.map(|i| i.high),
            }
        })
    });
    rows.collect()
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![(String::new(), figure(n))]
}

fn figure(n: &Numbers) -> Figure {
    let share = |group: usize, method: usize| ratios(&at(n, group), method);
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
    let named = |values| if values == EXACT { "exact values" } else { "values from the group, prefix only" };
    let lambdas = lambdas(n);
    let figure = Figure::new(format!(
        "Unbiased values of prefixes take {:.0} % of RLOO's variance away at G = 8 and {:.0} % at G = 32",
        100.0 * (1.0 - small),
        100.0 * (1.0 - large)
    ))
    .caption(format!(
        "Left: the same {tasks} tasks (the zoo and random trees) at every group size, simulated groups common to all \
         methods; dot: mean over tasks, bar: middle 90 % of tasks. Right: mean over {} tasks; 0 is ∇J itself, 1 not \
         stepping at all. Exact values and b* are no methods without a critic; b* = E[Rw|s]/E[w|s], w the squared \
         norm of the score, is the best that a baseline of prefixes can do.",
        n.by_lambda.len()
    ))
    .panel_size(430, 310)
    .panel(variance.hline(1.0, "RLOO").hline(GOAL, "goal"));
    chart(&lambdas)
        .panels(|_| "Error of one update, G = 8")
        .x("λ")
        .y(Axis::new("minimal MSE over step size").range(0.3, 1.0))
        .lines(|row| named(row.values), |row| (row.lambda, row.error_at_best_step))
        .on(figure)
}
