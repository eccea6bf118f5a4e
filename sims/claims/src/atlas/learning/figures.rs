use super::measure::{Ranking, curve, drawn};
use super::ranking::order;
use super::results::CostAxis;
use super::why::{Case, QUANTITIES, READINGS, Regime};
use super::words::{curves_title, ranking_title, why_title};
use crate::atlas::entrants::{BASELINE, Family};
use crate::experiments::common::{coarse_interval, mean, quantile};
use crate::figure::{Axis, Figure, Panel};
use crate::training::GROUP;
use grpo_lambda_stats::OverTasks;

pub(super) fn figures(r: &Ranking) -> Vec<(String, Figure)> {
    vec![("ranking".into(), ranking(r)), ("curves".into(), curves(r)), ("why".into(), why(r))]
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
         95 % interval. (free): values from the exact oracle at no charge; K = 8: from completions, charged. \
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
         around the curve. Each method at its best rate. K = 8: fresh completions are charged; (free): values from the exact oracle.",
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
    let mut figure = Figure::new(why_title(r)).caption(caption).columns(3).panel_size(400, 300);
    figure = figure.names(["ranked task", "random tree"]);
    for (q, quantity) in QUANTITIES.iter().enumerate() {
        if let Some((_, short, label)) = SHOWN.iter().find(|(name, ..)| *name == quantity.name) {
            figure = figure.panel(against_quantity(r, &cases, q, (short, label)));
        }
    }
    figure
}

/// The quantities that are drawn, in short and on their axes.
const SHOWN: [(&str, &str, &str); 6] = [
    ("cosine", "direction", "cosine with ∇J less GRPO's"),
    ("log2_step", "step size", "log2 of |E[g]| over GRPO's"),
    ("log2_snr_half", "signal to noise", "log2 of SNR over GRPO's, half-learned"),
    ("length_bias", "length bias", "correlation of credit and length less GRPO's"),
    ("clamp_gain", "the clamp alone", "gain of GRPO, clamp -0.1"),
    ("final_gain", "the end", "J / J* after the last update less GRPO's"),
];

/// Gains against one quantity, with its correlation.
fn against_quantity(r: &Ranking, cases: &[&Case], q: usize, (short, label): (&str, &str)) -> Panel {
    let found =
        r.why.correlations.iter().find(|c| c.reading == 0 && c.regime == Regime::Tuned && c.quantity == q);
    let rho = found.map_or(String::new(), |c| format!("rho {}", coarse_interval(c.rho)));
    // Two tasks far out would press all others together.
    let xs: Vec<f64> = cases.iter().map(|case| case.quantities[q]).filter(|x| x.is_finite()).collect();
    let (low, high) = (quantile(&xs, 0.03), quantile(&xs, 0.97));
    let (low, high) = (low - 0.08 * (high - low), high + 0.08 * (high - low));
    let beyond = xs.iter().filter(|x| **x < low || **x > high).count();
    let note = if beyond > 0 { format!("; {beyond} beyond the axis") } else { String::new() };
    let mut panel = Panel::new(format!("{short}: {rho}{note}"))
        .x(Axis::new(label).range(low, high))
        .y("gain in area")
        .hline(0.0, "");
    for (kind, named) in [("random tree", false), ("ranked task", true)] {
        let points = cases
            .iter()
            .filter(|case| case.named == named)
            .filter(|case| (low..=high).contains(&case.quantities[q]))
            .map(|case| {
                let gain = case.gains[Regime::Tuned as usize];
                (case.quantities[q], gain.low, gain.mid, gain.high)
            });
        panel = panel.intervals(kind, points);
    }
    // The largest decided losses and gains of ranked tasks, by name.
    let mut told: Vec<_> = cases
        .iter()
        .filter(|c| c.named && c.sign(Regime::Tuned) != 0 && (low..=high).contains(&c.quantities[q]))
        .collect();
    told.sort_by(|a, b| b.gains[0].mid.abs().total_cmp(&a.gains[0].mid.abs()));
    for case in told.into_iter().take(2) {
        let under = case.gains[0].low - 0.012;
        panel = panel.text(case.quantities[q], under, case.task.as_str());
    }
    panel
}
