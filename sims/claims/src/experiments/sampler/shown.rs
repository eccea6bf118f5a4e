//! Tables and the figure.

use super::findings::{Family, PREDICTED, RatioSummary, ratios};
use super::tasks::Row;
use super::{BEST, GOAL, GROUPS, HALVES, HALVES_Q, METHODS, Numbers, PREFIX, VALUES, VISIT};
use crate::experiments::common::chart::chart;
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{extremes, mean, quantile};
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_stats::paired_permutation;
use grpo_lambda_stats::table::Table;

/// Sign flips that are drawn where there are too many tasks for all.
const FLIPS: usize = 999;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        ("overall".into(), overall(n)),
        ("chains".into(), Table::from_rows(&n.chains)),
        ("predicted".into(), predicted(n)),
        ("trees".into(), Table::from_rows(&n.trees)),
    ]
}

/// A row per family, group size and method.
fn overall(n: &Numbers) -> Table {
    let families = [(Family::All, "all"), (Family::Zoo, "zoo"), (Family::Random, "random")];
    let cases = families.into_iter().flat_map(|family| GROUPS.map(|g| (family, g)));
    let cases = cases.flat_map(|case| METHODS.iter().enumerate().map(move |method| (case, method)));
    table(cases.filter_map(|(((family, name), g), (method, title))| {
        let values = ratios(n, family, g, method);
        let over = RatioSummary::new(&values)?;
        let flips = paired_permutation(&values, &vec![1.0; values.len()], FLIPS, 0);
        let named = Record::default().with("family", name).with("group", g).with("method", *title);
        let mean = named.with("tasks", over.tasks).interval("mean_over_rloo", over.interval);
        let shares = mean.with("median", over.median).with("share_at_most_0_85", over.reached);
        Some(shares.with("p_sign_flips", flips.map(|test| test.p)))
    }))
}

fn predicted(n: &Numbers) -> Table {
    table(PREDICTED.iter().filter_map(|&(method, g, predicted)| {
        let over = RatioSummary::new(&ratios(n, Family::Random, g, method))?;
        let record = Record::default().with("method", METHODS[method]).with("group", g);
        Some(record.with("predicted", predicted).interval("found", over.interval).with("tasks", over.tasks))
    }))
}

/// Methods whose means are drawn next to each other.
const TOGETHER: [usize; 6] = [PREFIX, HALVES, HALVES_Q, VISIT, VALUES, BEST];

/// The rows of a group size in which all of [`TOGETHER`] were measured.
pub(super) fn complete(n: &Numbers, group: usize) -> Vec<&Row> {
    let measured = |r: &&Row| r.group == group && TOGETHER.iter().all(|&m| r.ratio[m].is_some());
    n.rows.iter().filter(measured).collect()
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![(String::new(), of_methods(n)), ("lengths".into(), of_chains(n))]
}

/// The share of RLOO's variance by method and group size.
fn of_methods(n: &Numbers) -> Figure {
    let halves = |g: usize| mean(&ratios(n, Family::All, g, HALVES));
    let panel = Panel::new("")
        .x(Axis::new("variance of an update over RLOO's").range(0.0, 1.3))
        .y(Axis::new("").categories(TOGETHER.map(|method| METHODS[method])))
        .vline(1.0, "RLOO")
        .vline(GOAL, "goal");
    let panel = GROUPS.iter().zip([-0.2, 0.0, 0.2]).fold(panel, |panel, (&g, aside)| {
        let spans = TOGETHER.iter().zip(0..).map(|(&method, row)| {
            let values: Vec<f64> = complete(n, g).iter().filter_map(|r| Some(r.ratio[method]?.0)).collect();
            (f64::from(row) + aside, quantile(&values, 0.05), mean(&values), quantile(&values, 0.95))
        });
        panel.spans(format!("groups of {g}"), spans.collect::<Vec<_>>())
    });
    Figure::new(format!(
        "Systematic sampling takes {:.0} % of RLOO's variance away in groups of {}, {:.0} % in groups of {}, without a bias",
        100.0 * (1.0 - halves(GROUPS[0])),
        GROUPS[0],
        100.0 * (1.0 - halves(GROUPS[1])),
        GROUPS[1]
    ))
    .caption(format!(
        "Mean and middle 90 % over the {} tasks on which every method was measured; the title has exact means over all {} tasks. Baselines come from the other of two systematic sets, \
         or from the prompt's earlier visit inside a guard. Prefix RLOO, exact values and the best baseline of prefixes are those of independent responses, and the last two use \
         what no group knows.",
        complete(n, GROUPS[0]).len(),
        ratios(n, Family::All, GROUPS[0], HALVES).len()
    ))
    .columns(1)
    .panel_size(760, 380)
    .panel(panel)
}

/// The variance on chains by their length.
fn of_chains(n: &Numbers) -> Figure {
    let g = GROUPS[1];
    let own: Vec<_> = n.chains.iter().filter(|c| c.group == g).collect();
    let longest = own.iter().map(|c| c.tokens).max().unwrap_or(0);
    let at_end = own.iter().filter(|c| c.tokens == longest).map(|c| c.ratio);
    let (least, most) = extremes(at_end);
    let figure = Figure::new(format!(
        "Two systematic sets keep {least:.2} to {most:.2} of RLOO's variance over {longest} tokens, by what an error does"
    ))
    .caption(format!("Chains of tokens of which every step must be right, groups of {g}."))
            .columns(1)
            .panel_size(560, 400);
    chart(own)
        .panels(|_| "")
        .x(Axis::new("tokens of a response").range(0.0, longest as f64))
        .y(Axis::new("variance of an update over RLOO's").range(0.0, 1.3))
        .lines(|c| c.chain, |c| (c.tokens as f64, c.ratio))
        .hline(1.0, "RLOO")
        .on(figure)
}
