//! The figures.

use super::competitors::Knowledge;
use super::curves::{curve, drawn};
use super::measure::Ranking;
use super::ranking::order;
use super::run::CostAxis;
use super::titles;
use super::why::{Case, QUANTITIES, READINGS, Regime};
use crate::atlas::entrants::{BASELINE, Family};
use crate::figure::{Axis, Figure, Panel};
use crate::training::GROUP;

pub(super) fn figures(r: &Ranking) -> Vec<(String, Figure)> {
    vec![("ranking".into(), ranking(r)), ("curves".into(), curves(r)), ("why".into(), why(r))]
}

/// The tasks whose curves are drawn: the three on which the drawn methods differ most, those that pay for completions left out.
fn drawn_tasks(r: &Ranking) -> Vec<usize> {
    let paid = |&c: &usize| matches!(r.results.competitors[c].knowledge, Knowledge::Completions(_));
    let unpaid: Vec<usize> = drawn(r).into_iter().filter(|c| !paid(c)).collect();
    let spread = |t: usize| {
        let areas: Vec<f64> = unpaid.iter().map(|&c| r.standings[0][c].gains[t].mid).collect();
        let high = areas.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        high - areas.iter().copied().fold(f64::INFINITY, f64::min)
    };
    let mut tasks: Vec<usize> = (0..r.results.tasks.len()).collect();
    tasks.sort_by(|&a, &b| spread(b).total_cmp(&spread(a)));
    tasks.truncate(3);
    tasks
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
         95 % interval. (free): values from the exact oracle at no charge; K = 8: from completions, charged.",
        r.results.tasks.len(),
        r.effort.runs
    );
    let families = [Family::Group, Family::Trace, Family::Score, Family::Value];
    let mut figure = Figure::new(titles::ranking(r))
        .caption(caption)
        .columns(1)
        .panel_size(900, 820)
        .names(families.map(family));
    for axis in CostAxis::ALL {
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
            let of = |(i, &c): (usize, &usize)| {
                let level = standings[c].level;
                let own = r.results.competitors[c].family() == kind;
                own.then_some((i as f64, level.low, level.mid, level.high))
            };
            panel = panel.spans(family(kind), order.iter().enumerate().filter_map(of));
        }
        figure = figure.panel(panel);
    }
    figure
}

/// Learning curves, a row per task: against responses and against tokens.
fn curves(r: &Ranking) -> Figure {
    let caption = format!(
        "Exact J over J*: mean of {} runs, band: 95 % bootstrap; a curve rises when an update is done and keeps its level after the last one. Each method at \
         its best rate. K = 8: fresh completions are charged; (free): values from the exact oracle. The three tasks on which these methods, K = 8 aside, differ most. Vertical axes differ.",
        r.effort.runs
    );
    let methods = drawn(r);
    let mut figure = Figure::new(titles::curves(r))
        .caption(caption)
        .columns(2)
        .panel_size(480, 270)
        .names(methods.iter().map(|&c| r.name(c)));
    for t in drawn_tasks(r) {
        for axis in CostAxis::ALL {
            let task = &r.results.tasks[t];
            let mut panel = Panel::new(format!("{}: {}", task.name, task.about))
                .x(Axis::new(format!("{} spent", axis.name())).log())
                .y("J / J*");
            let mut low = 1.0f64;
            for &c in &methods {
                // A logarithmic axis, without the common start: at best rates learning is over within a few groups.
                let points = curve(r, c, t, axis).split_off(1);
                low = points.iter().map(|(_, j)| j.low).fold(low, f64::min);
                let name = r.name(c);
                panel = panel
                    .band(name.as_str(), points.iter().map(|(x, j)| (*x, j.low, j.high)))
                    .line(name.as_str(), points.iter().map(|(x, j)| (*x, j.mid)));
            }
            panel.y = panel.y.range(((low * 10.0).floor() / 10.0).clamp(0.0, 0.8), 1.02);
            figure = figure.panel(panel);
        }
    }
    figure
}

/// Gains of the headline reading over GRPO per task, against what might explain them.
fn why(r: &Ranking) -> Figure {
    let cases: Vec<_> = r.why.cases.iter().filter(|case| case.reading == 0).collect();
    let caption = format!(
        "{} against GRPO, each at its own best rate: difference of the area under J/J* against responses, mean of {} pairs of runs, 95 % bootstrap; one \
         dot a task ({} ranked ones, the others random trees). The first four quantities are exact and known before training, the last two measured. rho: Spearman's correlation, 95 % over \
         draws of tasks.",
        READINGS[0],
        r.effort.runs,
        cases.iter().filter(|case| case.named).count()
    );
    let mut figure = Figure::new(titles::why(r)).caption(caption).columns(3).panel_size(400, 300);
    figure = figure.names(["ranked task", "random tree"]);
    for (q, quantity) in QUANTITIES.iter().enumerate() {
        if SHOWN.contains(&quantity.name) {
            figure = figure.panel(against_quantity(r, &cases, q));
        }
    }
    figure
}

/// The quantities that are drawn.
const SHOWN: [&str; 6] = ["cosine", "log2_step", "log2_snr_half", "length_bias", "clamp_gain", "final_gain"];

/// Gains against one quantity, with its correlation.
fn against_quantity(r: &Ranking, cases: &[&Case], q: usize) -> Panel {
    let found =
        r.why.correlations.iter().find(|c| c.reading == 0 && c.regime == Regime::Tuned && c.quantity == q);
    let rho = found
        .map_or(String::new(), |c| format!("rho {:+.2} [{:+.2}, {:+.2}]", c.rho.mid, c.rho.low, c.rho.high));
    let name = QUANTITIES[q].name;
    let mut panel =
        Panel::new(format!("{}: {rho}", short(name))).x(label(name)).y("gain in area").hline(0.0, "");
    for (kind, named) in [("random tree", false), ("ranked task", true)] {
        let points = cases.iter().filter(|case| case.named == named).map(|case| {
            let gain = case.gains[Regime::Tuned as usize];
            (case.quantities[q], gain.low, gain.mid, gain.high)
        });
        panel = panel.intervals(kind, points);
    }
    // The largest decided losses and gains of ranked tasks, by name.
    let mut told: Vec<_> = cases.iter().filter(|c| c.named && c.sign(Regime::Tuned) != 0).collect();
    told.sort_by(|a, b| b.gains[0].mid.abs().total_cmp(&a.gains[0].mid.abs()));
    for case in told.into_iter().take(2) {
        let under = case.gains[0].low - 0.012;
        panel = panel.text(case.quantities[q], under, case.task.as_str());
    }
    panel
}

fn short(name: &str) -> &'static str {
    match name {
        "cosine" => "direction",
        "log2_step" => "step size",
        "log2_snr_half" => "signal to noise",
        "length_bias" => "length bias",
        "clamp_gain" => "the clamp alone",
        _ => "the end",
    }
}

fn label(name: &str) -> &'static str {
    match name {
        "cosine" => "cosine with ∇J less GRPO's",
        "log2_step" => "log2 of |E[g]| over GRPO's",
        "log2_snr_half" => "log2 of SNR over GRPO's, half-learned",
        "length_bias" => "correlation of credit and length less GRPO's",
        "clamp_gain" => "gain of GRPO, clamp -0.1",
        _ => "J / J* after the last update less GRPO's",
    }
}
