use super::measure::{Ranking, curve, drawn};
use super::ranking::order;
use super::results::CostAxis;
use super::words::{curves_title, ranking_title};
use crate::atlas::entries::{BASELINE, Family};
use crate::experiments::common::mean;
use crate::figure::{Axis, Figure, Panel};
use crate::training::GROUP;
use grpo_lambda_stats::OverTasks;

pub(super) fn figures(r: &Ranking) -> Vec<(String, Figure)> {
    vec![("ranking".into(), ranking(r)), ("curves".into(), curves(r))]
}

fn family(family: Family) -> &'static str {
    match family {
        Family::Group => "one number per response",
        Family::Trace => "token weights and traces",
        Family::Score => "scores of a model",
        Family::Value => "values and prefix trees",
    }
}

/// Everyone by rank, against responses and against tokens.
fn ranking(r: &Ranking) -> Figure {
    let budget = r.effort.updates * GROUP;
    let caption = format!(
        "Area under J/J* (exact J): mean over {} tasks of the mean of {} runs, 95 % intervals by stratified bootstrap. Budget {budget} responses, or as \
         many tokens as {budget} responses of the initial policy have; each method at its best rate of one grid; one step per group of {GROUP}. In brackets: place, and its \
         95 % interval. (free): values by exact enumeration at no charge; K = 8: from completions, charged. \
         The ranking against tokens stands in the data.",
        r.results.tasks.len(),
        r.effort.runs
    );
    let families = [Family::Group, Family::Trace, Family::Score, Family::Value];
    let axis = CostAxis::Responses;
    let standings = &r.standings[axis as usize];
    let order = order(standings);
    let label = |&c: &usize| {
        let rank = standings[c].rank;
        format!("{}  [{}; {} to {}]", r.name(c), rank.mid, rank.low.round(), rank.high.round())
    };
    let mut panel = Panel::new(format!("against {}", axis.name()))
        .x(format!("area under J / J* against {} spent", axis.name()))
        .y(Axis::new("").categories(order.iter().map(label)))
        .vline(standings[0].level.mid, BASELINE);
    for kind in families {
        let span = |(i, &c): (usize, &usize)| {
            let level = standings[c].level;
            let own = r.results.competitors[c].family() == kind;
            own.then_some((i as f64, level.low, level.mid, level.high))
        };
        panel = panel.spans(family(kind), order.iter().enumerate().filter_map(span));
    }
    let figure = Figure::new(ranking_title(r)).caption(caption).columns(1).panel_size(620, 700);
    figure.names(families.map(family)).panel(panel)
}

/// Learning curves, mean over all tasks: against responses and against tokens.
fn curves(r: &Ranking) -> Figure {
    let caption = format!(
        "Exact J over J*: mean over {} tasks of the mean of {} runs, against the share of the task's budget that is spent; band: 95 % over draws of tasks of the difference to GRPO, \
         around the curve. Each method at its best rate. K = 8: fresh completions are charged; (free): values by exact enumeration.",
        r.results.tasks.len(),
        r.effort.runs
    );
    let methods = drawn(r);
    let mut figure = Figure::new(curves_title(r))
        .caption(caption)
        .columns(2)
        .panel_size(480, 330)
        .names(methods.iter().map(|&c| r.name(c)));
    for axis in CostAxis::ALL {
        let mut panel = Panel::new(format!("against {}", axis.name()))
            .x(Axis::new("share of the budget spent").log())
            .y("J / J*");
        let baseline = by_piece(r, methods[0], axis);
        for &c in &methods {
            let name = r.name(c);
            let own = by_piece(r, c, axis);
            let share = |i: usize| (i + 1) as f64 / own.len() as f64;
            let mid: Vec<f64> = own.iter().map(|tasks| mean(tasks)).collect();
            let band =
                own.iter().zip(&baseline).zip(&mid).enumerate().filter_map(|(i, ((own, base), mid))| {
                    let apart: Vec<f64> = own.iter().zip(base).map(|(a, b)| a - b).collect();
                    let around = OverTasks::new(&apart)?.interval;
                    Some((share(i), mid + around.low - around.mid, mid + around.high - around.mid))
                });
            let band: Vec<(f64, f64, f64)> = band.collect();
            panel = panel
                .band(name.as_str(), band)
                .line(name.as_str(), mid.iter().enumerate().map(|(i, j)| (share(i), *j)));
        }
        figure = figure.panel(panel);
    }
    figure
}

/// `J/J*` after each piece of the budget but none, by task.
fn by_piece(r: &Ranking, c: usize, axis: CostAxis) -> Vec<Vec<f64>> {
    let tasks: Vec<Vec<f64>> = (0..r.results.tasks.len())
        .map(|t| curve(r, c, t, axis).into_iter().skip(1).map(|(_, j)| j.mid).collect())
        .collect();
    (0..tasks[0].len()).map(|i| tasks.iter().map(|task| task[i]).collect()).collect()
}
